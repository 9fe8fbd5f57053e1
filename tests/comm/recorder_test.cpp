#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/connect.h"
#include "comm/fake/fake.h"
#include "comm/solo.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

World rank_2_of_4() {
  return {.rank = 2, .size = 4};
}

TEST(Fake, one_process_plays_one_rank_of_many) {
  const Connection c = connect(rank_2_of_4(), CommBackend::fake, -1, {});
  EXPECT_EQ(c.device->rank(), 2);
  EXPECT_EQ(c.host->size(), 4);
  const Tensor all = at::ones({4, 3}), mine = at::full({3}, 5.0);
  c.device->all_gather(all, mine).wait();
  EXPECT_TRUE(at::equal(all[2], mine));
  EXPECT_TRUE(at::equal(all[0], at::zeros({3})));
  EXPECT_EQ(all_gather_bytes(*c.host, "abc")[2], "abc");
}

TEST(Fake, in_place_gathers_and_scatters_keep_the_own_part) {
  const Connection c = connect(rank_2_of_4(), CommBackend::fake, -1, {});
  const Tensor full = at::arange(8, at::kFloat), own = full.narrow(0, 4, 2);
  c.device->reduce_scatter(own, full, ReduceOp::sum).wait();
  c.device->all_gather(full, own).wait();
  EXPECT_TRUE(at::equal(full, at::tensor({0, 0, 0, 0, 4, 5, 0, 0}, at::kFloat)));
}

TEST(Fake, works_on_meta_tensors) {
  const Connection c = connect(rank_2_of_4(), CommBackend::fake, -1, {});
  const Tensor full = at::empty({8}, at::TensorOptions().device(at::kMeta));
  c.device->all_gather(full, full.narrow(0, 4, 2)).wait();
  c.device->all_reduce(full, ReduceOp::sum).wait();
}

TEST(Fake, groups_have_the_sizes_of_the_mesh) {
  const Connection c = connect(rank_2_of_4(), CommBackend::fake, -1, {});
  Groups groups(Mesh(4, {.dp_shard = 2, .tp = 2}), *c.device);
  EXPECT_EQ(groups.open("tp").size(), 2);
  EXPECT_EQ(groups.open("tp").rank(), 0);
  EXPECT_EQ(groups.open("dp_shard").world_ranks(), (std::vector<int>{0, 2}));
}

TEST(Recorder, sees_operation_group_label_pointers_and_bytes) {
  const auto recording = std::make_shared<Recording>();
  const auto c = make_recorder(make_solo("fsdp", 0), recording);
  const Tensor output = at::zeros({6}), input = at::ones({6});
  c->all_gather(output, input, {.label = "blocks.0"}).wait();
  EXPECT_TRUE(at::equal(output, input));
  const auto records = recording->records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].operation.op, Op::all_gather);
  EXPECT_EQ(records[0].operation.label, "blocks.0");
  EXPECT_EQ(records[0].group, "fsdp");
  EXPECT_EQ(records[0].input, input.const_data_ptr());
  EXPECT_EQ(records[0].output, output.const_data_ptr());
  EXPECT_EQ(records[0].output_bytes, 24u);
}

TEST(Recorder, groups_split_from_it_record_too) {
  const auto recording = std::make_shared<Recording>();
  const auto c = make_recorder(make_solo("world", 0), recording);
  const auto group = c->split(0, "tp");
  group->barrier();
  EXPECT_EQ(recording->records().back().group, "tp");
}

TEST(Solo, an_aborted_group_of_one_fails_until_it_is_rearmed) {
  const auto c = make_solo("pp", 0);
  c->abort("failed step");
  EXPECT_THROW(c->barrier(), CommError);
  c->rearm();
  c->barrier();
}

}  // namespace
}  // namespace coeus::comm
