#pragma once
#include <cstdint>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "layout/schedule/schedule.h"

namespace coeus::schedules {

struct Shape {
  std::int64_t num_ranks, stages_per_rank, num_micro_batches;
};

// One rank's list while it is written. A builder says only which stage is next: the micro-batch is
// the next one of that stage, so that each kind ascends whatever the builder does. A builder made
// for more micro-batches than there are goes on counting; what is beyond is left out.
class RankList {
 public:
  explicit RankList(std::int64_t num_micro_batches) : num_micro_batches_(num_micro_batches) {}

  void forward(std::int64_t stage) { add(Action::Kind::forward, stage); }
  void backward(std::int64_t stage) {  // the weights later
    add(Action::Kind::backward, stage);
    owed_.push(stage);
  }
  void weight() {  // of the oldest backward that still owes them
    add(Action::Kind::weight, owed_.front());
    owed_.pop();
  }
  void backward_and_weight(std::int64_t stage) {
    add(Action::Kind::backward, stage);
    add(Action::Kind::weight, stage);
  }
  void weight_of(std::int64_t stage) { add(Action::Kind::weight, stage); }

  std::int64_t num_forwards(std::int64_t stage) { return next_[{Action::Kind::forward, stage}]; }
  std::int64_t num_weights(std::int64_t stage) { return next_[{Action::Kind::weight, stage}]; }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  void add(Action::Kind kind, std::int64_t stage) {
    const std::int64_t micro_batch = next_[{kind, stage}]++;
    if (micro_batch < num_micro_batches_) actions_.push_back({kind, stage, micro_batch});
  }

  std::int64_t num_micro_batches_;
  std::map<std::pair<Action::Kind, std::int64_t>, std::int64_t> next_;
  std::queue<std::int64_t> owed_;
  std::vector<Action> actions_;
};

// A file each. They write the list of one rank.
void gpipe(const Shape& shape, std::int64_t rank, RankList& list);
void one_forward_one_backward(const Shape& shape, std::int64_t rank, RankList& list);
void interleaved_1f1b(const Shape& shape, std::int64_t rank, RankList& list);
void looped_bfs(const Shape& shape, std::int64_t rank, RankList& list);
void zero_bubble(const Shape& shape, std::int64_t rank, RankList& list);
void zbv(const Shape& shape, std::int64_t rank, RankList& list);
void dualpipe_v(const Shape& shape, std::int64_t rank, RankList& list);

}  // namespace coeus::schedules
