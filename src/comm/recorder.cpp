#include "comm/recorder.h"

#include "core/torch.h"

namespace coeus::comm {

void Recording::add(Record record) {
  std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
}

std::vector<Record> Recording::records() const {
  std::lock_guard lock(mutex_);
  return records_;
}

void Recording::clear() {
  std::lock_guard lock(mutex_);
  records_.clear();
}

namespace {

const void* pointer(const Tensor& tensor) {
  return tensor.is_meta() ? nullptr : tensor.const_data_ptr();
}

class Recorder : public Communicator {
 public:
  Recorder(std::unique_ptr<Communicator> inner, std::shared_ptr<Recording> recording)
      : inner_(std::move(inner)), recording_(std::move(recording)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  const std::vector<int>& world_ranks() const override { return inner_->world_ranks(); }

  Work all_reduce(Tensor tensor, ReduceOp op, const CollectiveOptions& options) override {
    record(all_reduce_operation(tensor, op, options), &tensor, &tensor);
    return inner_->all_reduce(tensor, op, options);
  }
  Work all_gather(Tensor output, Tensor input, const CollectiveOptions& options) override {
    record(all_gather_operation(output, input, size(), options), &output, &input);
    return inner_->all_gather(output, input, options);
  }
  Work reduce_scatter(Tensor output, Tensor input, ReduceOp op,
                      const CollectiveOptions& options) override {
    record(reduce_scatter_operation(output, input, size(), op, options), &output, &input);
    return inner_->reduce_scatter(output, input, op, options);
  }
  Work all_to_all(Tensor output, Tensor input, const std::vector<std::int64_t>& receive_rows,
                  const std::vector<std::int64_t>& send_rows,
                  const CollectiveOptions& options) override {
    record(all_to_all_operation(output, input, receive_rows, send_rows, size(), options), &output,
           &input);
    return inner_->all_to_all(output, input, receive_rows, send_rows, options);
  }
  Work broadcast(Tensor tensor, int root, const CollectiveOptions& options) override {
    record(broadcast_operation(tensor, root, size(), options), &tensor, &tensor);
    return inner_->broadcast(tensor, root, options);
  }
  Work send(Tensor tensor, int to, const CollectiveOptions& options) override {
    record(send_operation(tensor, to, size(), options), nullptr, &tensor);
    return inner_->send(tensor, to, options);
  }
  Work recv(Tensor tensor, int from, const CollectiveOptions& options) override {
    record(recv_operation(tensor, from, size(), options), &tensor, nullptr);
    return inner_->recv(tensor, from, options);
  }
  void barrier(const CollectiveOptions& options) override {
    record(barrier_operation(options), nullptr, nullptr);
    inner_->barrier(options);
  }
  void synchronize(const CollectiveOptions& options) override { inner_->synchronize(options); }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    record(split_operation(name), nullptr, nullptr);
    return wrap(inner_->split(color, name));
  }
  std::unique_ptr<Communicator> open_group(const std::vector<int>& members, int color,
                                           const std::string& name) override {
    record(split_operation(name), nullptr, nullptr);
    return wrap(inner_->open_group(members, color, name));
  }
  void group_begin() override { inner_->group_begin(); }
  void group_end() override { inner_->group_end(); }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }
  void rearm() override { inner_->rearm(); }

 private:
  std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> group) {
    return group ? make_recorder(std::move(group), recording_) : nullptr;
  }
  void record(const Operation& operation, const Tensor* output, const Tensor* input) {
    Record record{.operation = operation, .group = name()};
    if (output) {
      record.output = pointer(*output);
      record.output_bytes = output->nbytes();
    }
    if (input) {
      record.input = pointer(*input);
      record.input_bytes = input->nbytes();
    }
    recording_->add(std::move(record));
  }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<Recording> recording_;
};

}  // namespace

std::unique_ptr<Communicator> make_recorder(std::unique_ptr<Communicator> inner,
                                            std::shared_ptr<Recording> recording) {
  return std::make_unique<Recorder>(std::move(inner), std::move(recording));
}

}  // namespace coeus::comm
