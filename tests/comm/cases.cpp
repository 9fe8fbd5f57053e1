#include "tests/comm/cases.h"

#include <numeric>
#include <thread>

#include "tests/comm/check.h"

namespace coeus::comm::testing {
namespace {

using namespace std::chrono_literals;
// The large size only where sums are rounded: the others take the same way.
std::vector<std::int64_t> counts_for(at::ScalarType dtype) {
  if (dtype == at::kFloat || dtype == at::kBFloat16) return {0, 1, 7, 1000, 70003};
  return {0, 1, 7, 1000};
}
const at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16, at::kDouble,
                                  at::kInt,   at::kLong,     at::kByte};

// Small whole numbers: their sums over a few ranks are exact in every dtype, in any order.
Tensor filled(int rank, std::int64_t count, at::ScalarType dtype, at::Device device) {
  const Tensor i = at::arange(count, at::kLong);
  return ((i * 3 + rank * 7) % 11).to(dtype).to(device);
}

Tensor reduced(int size, std::int64_t count, at::ScalarType dtype, ReduceOp op, at::Device device) {
  Tensor result = filled(0, count, at::kLong, at::kCPU);
  for (int r = 1; r < size; ++r) {
    const Tensor next = filled(r, count, at::kLong, at::kCPU);
    result = op == ReduceOp::sum   ? result + next
             : op == ReduceOp::max ? at::maximum(result, next)
                                   : at::minimum(result, next);
  }
  return result.to(dtype).to(device);
}

void check_equal(const Tensor& got, const Tensor& expected, const std::string& what) {
  CHECK_THAT(at::equal(got, expected), "{}", what);
}

std::string what(at::ScalarType dtype, std::int64_t count) {
  return fmt::format("{} x {}", c10::toString(dtype), count);
}

void all_reduce_reduces_every_dtype_and_size(Rank& rank) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t count : counts_for(dtype)) {
      for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
        const Tensor t = filled(rank.rank(), count, dtype, rank.device);
        rank.communicator.all_reduce(t, op, {.label = "t"}).wait();
        check_equal(t, reduced(rank.size(), count, dtype, op, rank.device), what(dtype, count));
      }
    }
  }
}

void all_gather_concatenates_out_of_place_and_in_place(Rank& rank) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t count : counts_for(dtype)) {
      std::vector<Tensor> parts;
      for (int r = 0; r < rank.size(); ++r) parts.push_back(filled(r, count, dtype, rank.device));
      const Tensor expected = at::cat(parts);
      const Tensor mine = parts[static_cast<std::size_t>(rank.rank())];
      const Tensor output = at::zeros_like(expected);
      rank.communicator.all_gather(output, mine).wait();
      check_equal(output, expected, what(dtype, count));

      const Tensor in_place = at::zeros_like(expected);
      const Tensor own = in_place.narrow(0, rank.rank() * count, count);
      own.copy_(mine);
      rank.communicator.all_gather(in_place, own).wait();
      check_equal(in_place, expected, what(dtype, count) + " in place");
    }
  }
}

void reduce_scatter_gives_the_own_part_out_of_place_and_in_place(Rank& rank) {
  for (const auto dtype : kDtypes) {
    for (const std::int64_t count : counts_for(dtype)) {
      const std::int64_t all = count * rank.size();
      const Tensor expected = reduced(rank.size(), all, dtype, ReduceOp::sum, rank.device)
                                  .narrow(0, rank.rank() * count, count);
      const Tensor input = filled(rank.rank(), all, dtype, rank.device);
      const Tensor output = at::zeros({count}, input.options());
      rank.communicator.reduce_scatter(output, input, ReduceOp::sum).wait();
      check_equal(output, expected, what(dtype, count));
      check_equal(input, filled(rank.rank(), all, dtype, rank.device), "the input is unchanged");

      const Tensor own = input.narrow(0, rank.rank() * count, count);
      rank.communicator.reduce_scatter(own, input, ReduceOp::sum).wait();
      check_equal(own, expected, what(dtype, count) + " in place");
    }
  }
}

// Rank i sends (i + 2·j) mod 4 rows to rank j, some none.
std::int64_t rows_between(int from, int to) {
  return (from + 2 * to) % 4;
}

Tensor row_block(int from, int to, std::int64_t width, const Rank& rank) {
  return filled(from * 5 + to, rows_between(from, to) * width, at::kFloat, rank.device)
      .view({rows_between(from, to), width});
}

void all_to_all_moves_uneven_rows(Rank& rank) {
  for (const std::int64_t width : {1, 3, 5000}) {
    std::vector<std::int64_t> sends, receives;
    std::vector<Tensor> sent, expected;
    for (int other = 0; other < rank.size(); ++other) {
      sends.push_back(rows_between(rank.rank(), other));
      receives.push_back(rows_between(other, rank.rank()));
      sent.push_back(row_block(rank.rank(), other, width, rank));
      expected.push_back(row_block(other, rank.rank(), width, rank));
    }
    const Tensor output = at::zeros_like(at::cat(expected));
    rank.communicator.all_to_all(output, at::cat(sent), receives, sends).wait();
    check_equal(output, at::cat(expected), fmt::format("width {}", width));
  }
}

void broadcast_copies_from_any_root(Rank& rank) {
  for (const std::int64_t count : counts_for(at::kFloat)) {
    for (int root = 0; root < rank.size(); ++root) {
      const Tensor t = filled(rank.rank(), count, at::kFloat, rank.device);
      rank.communicator.broadcast(t, root).wait();
      check_equal(t, filled(root, count, at::kFloat, rank.device), fmt::format("root {}", root));
    }
  }
}

void large_sends_in_both_directions_do_not_block(Rank& rank) {
  const std::int64_t count = 500003;  // more than a connection holds
  const int next = (rank.rank() + 1) % rank.size();
  const int previous = (rank.rank() + rank.size() - 1) % rank.size();
  const Tensor mine = filled(rank.rank(), count, at::kFloat, rank.device);
  const Tensor from_previous = at::zeros_like(mine), from_next = at::zeros_like(mine);
  rank.communicator.group_begin();
  Work a = rank.communicator.send(mine, next, {.label = "forward"});
  Work b = rank.communicator.send(mine, previous, {.label = "backward"});
  Work c = rank.communicator.recv(from_previous, previous);
  Work d = rank.communicator.recv(from_next, next);
  rank.communicator.group_end();
  for (Work* work : {&a, &b, &c, &d}) work->wait();
  check_equal(from_previous, filled(previous, count, at::kFloat, rank.device), "from previous");
  check_equal(from_next, filled(next, count, at::kFloat, rank.device), "from next");
}

void messages_between_a_pair_stay_in_order(Rank& rank) {
  if (rank.rank() > 1) return;
  for (int i = 0; i < 20; ++i) {
    const Tensor t = at::full({i}, i, at::TensorOptions().dtype(at::kInt).device(rank.device));
    const Tensor expected = t.clone();
    if (rank.rank() == 0) {
      rank.communicator.send(t, 1).wait();
    } else {
      const Tensor got = at::zeros_like(t);
      rank.communicator.recv(got, 0).wait();
      check_equal(got, expected, fmt::format("message {}", i));
    }
  }
}

void several_operations_are_in_flight_at_once(Rank& rank) {
  std::vector<Tensor> tensors;
  std::vector<Work> pending;
  for (int i = 0; i < 8; ++i) {
    tensors.push_back(filled(rank.rank(), 1000 + i, at::kFloat, rank.device));
    pending.push_back(rank.communicator.all_reduce(tensors.back(), ReduceOp::sum));
  }
  for (auto work = pending.rbegin(); work != pending.rend(); ++work) work->wait();
  for (int i = 0; i < 8; ++i) {
    check_equal(tensors[static_cast<std::size_t>(i)],
                reduced(rank.size(), 1000 + i, at::kFloat, ReduceOp::sum, rank.device),
                fmt::format("operation {}", i));
  }
}

void results_have_the_same_bits_on_every_rank(Rank& rank) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Tensor i = at::arange(70001, at::kFloat);
    const Tensor t = at::sin(i * (rank.rank() + 1)).to(dtype).to(rank.device);
    rank.communicator.all_reduce(t, ReduceOp::sum).wait();
    const Tensor all = at::empty({rank.size(), t.size(0)}, t.options());
    rank.communicator.all_gather(all, t).wait();
    for (int r = 0; r < rank.size(); ++r) check_equal(all[r], t, fmt::format("rank {}", r));
  }
}

void bfloat16_is_summed_in_float32(Rank& rank) {
  if (rank.device.is_cuda()) return;  // NCCL rounds at every hop
  // 256 + 1 + 1 + … : each addition alone would be rounded away.
  const Tensor t = at::full({5}, rank.rank() == 0 ? 256.0 : 1.0, at::kBFloat16);
  rank.communicator.all_reduce(t, ReduceOp::sum).wait();
  const Tensor expected = at::full({5}, 256.0 + rank.size() - 1, at::kFloat).to(at::kBFloat16);
  check_equal(t, expected, "sum");
}

void not_a_number_reaches_every_rank(Rank& rank) {
  if (rank.device.is_cuda()) return;
  const double value = rank.rank() == rank.size() - 1 ? std::nan("") : 1.0;
  for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    const Tensor t = at::full({3}, value, at::kFloat);
    rank.communicator.all_reduce(t, op).wait();
    CHECK_THAT(at::isnan(t).all().item<bool>(), "{}", static_cast<int>(op));
  }
}

void barrier_waits_for_every_rank(Rank& rank) {
  for (int i = 0; i < 5; ++i) rank.communicator.barrier({.label = "barrier"});
}

void split_makes_groups_ordered_by_rank(Rank& rank) {
  const int color = rank.rank() % 2;
  const auto half = rank.communicator.split(color, "half");
  CHECK_THAT(half->name() == "half" && half->rank() == rank.rank() / 2);
  CHECK_THAT(half->size() == (rank.size() + 1 - color) / 2);
  for (int r = 0; r < half->size(); ++r) {
    CHECK_THAT(half->world_ranks()[static_cast<std::size_t>(r)] ==
               rank.communicator.world_ranks()[static_cast<std::size_t>(2 * r + color)]);
  }
  const Tensor t = at::full({4}, rank.rank(), at::TensorOptions().device(rank.device));
  half->all_reduce(t, ReduceOp::sum).wait();
  int sum = 0;
  for (int r = color; r < rank.size(); r += 2) sum += r;
  check_equal(t, at::full_like(t, sum), "half");

  const auto some = half->split(half->rank() == 0 ? 0 : -1, "first");
  CHECK_THAT((some != nullptr) == (half->rank() == 0));
  if (some) some->barrier();
  const Tensor all = at::ones({4}, at::TensorOptions().device(rank.device));
  rank.communicator.all_reduce(all, ReduceOp::sum).wait();
  check_equal(all, at::full_like(all, rank.size()), "the parent still works");
}

void bytes_of_different_lengths_are_gathered_and_broadcast(Rank& rank) {
  if (rank.device.is_cuda()) return;  // for host communicators
  const auto text = [](int r) {
    return std::string(static_cast<std::size_t>(r * 3), 'a' + r % 26);
  };
  const auto all = all_gather_bytes(rank.communicator, text(rank.rank()));
  for (int r = 0; r < rank.size(); ++r) CHECK_THAT(all[static_cast<std::size_t>(r)] == text(r));
  const int root = rank.size() - 1;
  CHECK_THAT(broadcast_bytes(rank.communicator, rank.rank() == root ? "from the last" : "", root) ==
             "from the last");
}

void a_deadline_names_the_missing_rank_operation_and_label(Rank& rank) {
  if (rank.rank() == 1) {
    std::this_thread::sleep_for(rank.operation_timeout + 2s);
    return;
  }
  const std::string text = comm_error_of([&] {
    const Tensor t = at::ones({100}, at::TensorOptions().device(rank.device));
    rank.communicator.all_reduce(t, ReduceOp::sum, {.label = "blocks.3"}).wait();
    if (rank.device.is_cuda()) rank.communicator.barrier({.label = "blocks.3"});
  });
  check_contains(text, "rank 1 ");
  check_contains(text, rank.device.is_cuda() ? "" : "all_reduce");
  check_contains(text, "blocks.3");
}

void a_deadline_of_recv_names_the_sender(Rank& rank) {
  if (rank.rank() == 1) {
    std::this_thread::sleep_for(rank.operation_timeout + 2s);
    return;
  }
  if (rank.rank() != 0) return;
  const std::string text = comm_error_of([&] {
    const Tensor t = at::ones({100}, at::TensorOptions().device(rank.device));
    rank.communicator.recv(t, 1, {.label = "activations"}).wait();
  });
  check_contains(text, "rank 1 ");
  check_contains(text, "recv(from 1) of 100 Float \"activations\"");
}

void different_sizes_are_an_error_that_names_both(Rank& rank) {
  const std::string text = comm_error_of([&] {
    const Tensor t = at::ones({rank.rank() == 1 ? 5 : 4});
    rank.communicator.all_reduce(t, ReduceOp::sum, {.label = "t"}).wait();
  });
  check_contains(text, "of 5 Float");
  check_contains(text, "of 4 Float");
}

void different_operations_are_an_error_that_names_both(Rank& rank) {
  const std::string text = comm_error_of([&] {
    const Tensor t = at::ones({rank.size() * 4});
    if (rank.rank() == 1) {
      rank.communicator.reduce_scatter(t.narrow(0, 4, 4), t, ReduceOp::sum).wait();
    } else {
      rank.communicator.all_reduce(t, ReduceOp::sum).wait();
    }
  });
  check_contains(text, "all_reduce");
  check_contains(text, "reduce_scatter");
}

void abort_fails_waiting_and_later_operations_with_its_reason(Rank& rank) {
  const auto barrier = [&] { rank.communicator.barrier({.label = "never met"}); };
  if (rank.rank() == 1) {
    std::this_thread::sleep_for(50ms);
    rank.communicator.abort("rank 1 gave up");
  } else {
    check_contains(comm_error_of(barrier), "rank 1 gave up");
  }
  check_contains(comm_error_of(barrier), "rank 1 gave up");
}

void rearm_makes_an_aborted_group_usable_again(Rank& rank) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    rank.communicator.barrier();
    if (rank.rank() == rank.size() - 1) {
      rank.communicator.abort("a failed step");
    } else {
      (void)comm_error_of([&] { rank.communicator.barrier(); });
      rank.communicator.abort("a failed step");
    }
    rank.communicator.rearm();
    const Tensor t = at::ones({1000}, at::TensorOptions().device(rank.device));
    rank.communicator.all_reduce(t, ReduceOp::sum).wait();
    check_equal(t, at::full_like(t, rank.size()), fmt::format("attempt {}", attempt));
  }
}

}  // namespace

#define CASE(f) #f, f
const std::vector<Case>& conformance_cases() {
  static const std::vector<Case> cases = {
      {CASE(all_reduce_reduces_every_dtype_and_size)},
      {CASE(all_gather_concatenates_out_of_place_and_in_place)},
      {CASE(reduce_scatter_gives_the_own_part_out_of_place_and_in_place)},
      {CASE(all_to_all_moves_uneven_rows)},
      {CASE(broadcast_copies_from_any_root)},
      {CASE(large_sends_in_both_directions_do_not_block)},
      {CASE(messages_between_a_pair_stay_in_order), 2},
      {CASE(several_operations_are_in_flight_at_once)},
      {CASE(results_have_the_same_bits_on_every_rank)},
      {CASE(bfloat16_is_summed_in_float32)},
      {CASE(not_a_number_reaches_every_rank)},
      {CASE(barrier_waits_for_every_rank)},
      {CASE(split_makes_groups_ordered_by_rank)},
      {CASE(bytes_of_different_lengths_are_gathered_and_broadcast)},
      {CASE(a_deadline_names_the_missing_rank_operation_and_label), 2, Needs::short_deadline},
      {CASE(a_deadline_of_recv_names_the_sender), 2, Needs::short_deadline},
      {CASE(different_sizes_are_an_error_that_names_both), 2, Needs::mismatch_detection},
      {CASE(different_operations_are_an_error_that_names_both), 2, Needs::mismatch_detection},
      {CASE(abort_fails_waiting_and_later_operations_with_its_reason), 2},
      {CASE(rearm_makes_an_aborted_group_usable_again), 2, Needs::rearm},
  };
  return cases;
}
#undef CASE

Timeouts timeouts_for(const Case& c) {
  const bool is_short = c.needs == Needs::short_deadline;
  return {.startup = 60s, .operation = is_short ? 400ms : 60000ms};
}

}  // namespace coeus::comm::testing
