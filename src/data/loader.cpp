#include "data/loader.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace coeus::data {

struct Loader::State {
  struct Request {
    std::vector<std::int64_t> numbers;
    HostBuffers into;
    std::vector<SampleInfo> samples;
    std::size_t unfinished;
    std::exception_ptr failure;
  };
  struct Task {
    Request* request;
    std::size_t sequence;
  };

  const Dataset& dataset;
  const std::int64_t end;
  std::mutex mutex;
  std::condition_variable task_added, request_finished;
  std::map<std::int64_t, std::unique_ptr<Request>> requests;  // by ticket
  std::deque<Task> tasks;
  std::int64_t next_ticket = 0;
  bool stopping = false;
  std::vector<std::jthread> readers;

  State(const Dataset& d, std::int64_t e) : dataset(d), end(e) {}

  SampleInfo fill(const Request& request, std::size_t sequence) const {
    const std::int64_t length = dataset.sequence_length();
    const std::int64_t at = static_cast<std::int64_t>(sequence) * length;
    const SampleView view{request.into.tokens + at, request.into.labels + at,
                          request.into.positions + at};
    const std::int64_t n = request.numbers[sequence];
    if (n < end) return dataset.read(n, view);
    fill_ignored(length, view);
    return {};
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      task_added.wait(lock, [&] { return stopping || !tasks.empty(); });
      if (stopping) return;
      const Task task = tasks.front();
      tasks.pop_front();
      lock.unlock();
      SampleInfo info;
      std::exception_ptr failure;
      try {
        info = fill(*task.request, task.sequence);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      task.request->samples[task.sequence] = std::move(info);
      if (failure && !task.request->failure) task.request->failure = failure;
      if (--task.request->unfinished == 0) request_finished.notify_all();
    }
  }
};

Loader::Loader(const Dataset& dataset, std::int64_t num_threads, std::int64_t end)
    : state_(std::make_unique<State>(dataset, end)) {
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, num_threads); ++i) {
    state_->readers.emplace_back([state = state_.get()] { state->work(); });
  }
}

Loader::~Loader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->task_added.notify_all();
  state_->readers.clear();  // joins: nobody writes into the caller's buffers any more
}

std::int64_t Loader::start(std::vector<std::int64_t> sample_numbers, HostBuffers into) {
  const std::size_t count = sample_numbers.size();
  auto request = std::make_unique<State::Request>(
      State::Request{std::move(sample_numbers), into, std::vector<SampleInfo>(count), count, {}});
  const std::lock_guard lock(state_->mutex);
  for (std::size_t i = 0; i < count; ++i) state_->tasks.push_back({request.get(), i});
  const std::int64_t ticket = state_->next_ticket++;
  state_->requests.emplace(ticket, std::move(request));
  state_->task_added.notify_all();
  return ticket;
}

LoadedSequences Loader::wait(std::int64_t ticket) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(state_->mutex);
  const auto found = state_->requests.find(ticket);
  COEUS_ASSERT(found != state_->requests.end(), "ticket {} was waited for, or never given", ticket);
  State::Request& request = *found->second;
  state_->request_finished.wait(lock, [&] { return request.unfinished == 0; });
  const auto done = std::move(found->second);
  state_->requests.erase(found);
  lock.unlock();
  if (done->failure) std::rethrow_exception(done->failure);
  LoadedSequences loaded;
  loaded.samples = std::move(done->samples);
  for (const SampleInfo& sample : loaded.samples) loaded.valid_tokens += sample.valid_tokens;
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  loaded.wait_seconds = waited.count();
  return loaded;
}

}  // namespace coeus::data
