#include "comm/mpi/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "comm/reduce.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
enum Tag { kAbort = 1, kAsk, kAnswer };

at::ScalarType dtype_of(MPI_Datatype type) {
  if (type == MPI_FLOAT) return at::kFloat;
  if (type == MPI_DOUBLE) return at::kDouble;
  if (type == MPI_INT32_T) return at::kInt;
  if (type == MPI_INT64_T) return at::kLong;
  return at::kByte;
}

// MPI_MAX may drop a NaN; ours keeps it.
template <ReduceOp op>
void combine(void* in, void* inout, int* length, MPI_Datatype* type) {
  accumulate(dtype_of(*type), op, inout, in, *length);
}

}  // namespace

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(
      fmt::format("{}: {}", what, std::string_view(text, static_cast<std::size_t>(length))));
}

MpiLibrary::MpiLibrary() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (!initialized) {
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    owner_ = true;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_mpi(MPI_Op_create(combine<ReduceOp::max>, 1, &max_), "MPI_Op_create");
  check_mpi(MPI_Op_create(combine<ReduceOp::min>, 1, &min_), "MPI_Op_create");
}

MpiLibrary::~MpiLibrary() {
  if (failed_ || std::uncaught_exceptions() > 0) return;
  MPI_Op_free(&max_);
  MPI_Op_free(&min_);
  if (owner_) MPI_Finalize();
}

MPI_Op MpiLibrary::reduction(ReduceOp op) const {
  return op == ReduceOp::sum ? MPI_SUM : op == ReduceOp::max ? max_ : min_;
}

MpiGroup::MpiGroup(std::shared_ptr<MpiLibrary> library, MPI_Comm data, std::string name,
                   std::vector<int> world_ranks, const Timeouts& timeouts)
    : library_(std::move(library)),
      data_(data),
      name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      timeouts_(timeouts),
      present_(world_ranks_.size()) {
  MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN);
  check_mpi(MPI_Comm_dup(data_, &control_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_rank(data_, &rank_), "MPI_Comm_rank");
}

MpiGroup::~MpiGroup() {
  if (library_->failed() || std::uncaught_exceptions() > 0) {
    library_->mark_failed();
    // MPI may still read these.
    for (Sent& sent : sent_) (void)new std::string(std::move(sent.text));
    return;
  }
  MPI_Comm_free(&control_);
  MPI_Comm_free(&data_);
}

void MpiGroup::check_usable() const {
  if (failure_) throw CommError(*failure_);
}

void MpiGroup::tell(int to, int tag, const std::string& text) {
  Sent& sent = sent_.emplace_back(Sent{text, MPI_REQUEST_NULL});
  check_mpi(MPI_Isend(sent.text.data(), static_cast<int>(sent.text.size()), MPI_CHAR, to, tag,
                      control_, &sent.request),
            "MPI_Isend");
}

void MpiGroup::abort(const std::string& reason) noexcept {
  if (failure_) return;
  failure_ = reason;
  library_->mark_failed();
  try {
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) tell(r, kAbort, reason);
    }
    for (Sent& sent : sent_) {  // gives the messages a push, without waiting
      int done = 0;
      MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE);
    }
  } catch (const std::exception&) {
    // The others then meet their own deadline.
  }
}

void MpiGroup::ask(const Operation& operation, std::uint32_t sequence) {
  std::fill(present_.begin(), present_.end(), false);
  for (int r = 0; r < size(); ++r) {
    if (r != rank_) tell(r, kAsk, std::to_string(sequence));
  }
}

void MpiGroup::listen(const Operation& operation, std::uint32_t sequence) {
  for (;;) {
    int waiting = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &waiting, &status), "MPI_Iprobe");
    if (!waiting) break;
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string text(static_cast<std::size_t>(length), '\0');
    check_mpi(MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, control_,
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
    if (status.MPI_TAG == kAbort) {
      if (!failure_) failure_ = text;
      library_->mark_failed();
      continue;
    }
    // Who asks is present himself; both count only for the operation this rank is in.
    if (text == std::to_string(sequence))
      present_[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
    if (status.MPI_TAG == kAsk) tell(status.MPI_SOURCE, kAnswer, std::to_string(sequence));
  }
  std::erase_if(sent_, [](Sent& sent) {
    int done = 0;
    MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
}

void MpiGroup::time_out(const Operation& operation, std::uint32_t sequence) {
  std::vector<int> missing;
  const bool pairwise = is_pairwise(operation);
  for (int r = 0; r < size(); ++r) {
    const bool counts =
        pairwise ? r == operation.peer : r != rank_ && !present_[static_cast<std::size_t>(r)];
    if (counts) missing.push_back(world_ranks_[static_cast<std::size_t>(r)]);
  }
  const double seconds = std::chrono::duration<double>(timeouts_.operation).count();
  abort(fmt::format("rank {}, group {}: {}: no answer from {} after {}",
                    world_ranks_[static_cast<std::size_t>(rank_)], name_, describe(operation),
                    name_ranks(missing), format_seconds(seconds)));
  throw CommError(*failure_);
}

void MpiGroup::wait(std::vector<MPI_Request>& requests, const Operation& operation,
                    std::uint32_t sequence) {
  const auto begin = Clock::now();
  auto until = begin + timeouts_.operation;
  bool asked = false;
  auto pause = 20us;
  for (int tries = 0;; ++tries) {
    check_usable();
    int done = 0;
    check_mpi(
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
        to_string(operation.op));
    if (done) return;
    if (tries < 100) {
      std::this_thread::yield();
      continue;
    }
    listen(operation, sequence);
    if (Clock::now() > until) {
      if (asked) time_out(operation, sequence);
      ask(operation, sequence);
      asked = true;
      until += std::clamp<std::chrono::milliseconds>(timeouts_.operation / 2, 1000ms, 2000ms);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(200));
  }
}

}  // namespace coeus::comm
