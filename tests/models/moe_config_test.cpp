#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/deepseek_v3/kind.h"
#include "models/mixtral/kind.h"
#include "models/qwen3_moe/kind.h"

namespace coeus::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class Kind, class Change>
std::vector<std::string> faults_of(Change change) {
  Kind kind;
  EXPECT_TRUE(kind.apply_preset("debug"));
  change(kind.config);
  return kind.check();
}
template <class Change>
auto mixtral(Change change) {
  return faults_of<MixtralModelConfig>(change);
}
template <class Change>
auto qwen(Change change) {
  return faults_of<Qwen3MoeModelConfig>(change);
}
template <class Change>
auto deepseek(Change change) {
  return faults_of<DeepseekV3ModelConfig>(change);
}

TEST(MoeConfig, FaultsBetweenKeysNameTheKey) {
  EXPECT_THAT(mixtral([](auto& c) { c.top_k = 9; }),
              ElementsAre("top_k: 9 is more than num_experts 8"));
  EXPECT_THAT(mixtral([](auto& c) { c.num_heads = 7, c.num_kv_heads = 7; }),
              ElementsAre("num_heads: 7 does not divide dim 256"));
  EXPECT_THAT(mixtral([](auto& c) { c.num_kv_heads = 3; }),
              ElementsAre("num_kv_heads: 3 does not divide num_heads 8"));
  EXPECT_THAT(mixtral([](auto& c) { c.num_experts = 0; }),
              ElementsAre(HasSubstr("num_experts: 0")));
  EXPECT_THAT(mixtral([](auto& c) { c.aux_loss_alpha = -1; }),
              ElementsAre(HasSubstr("aux_loss_alpha: -1")));
  EXPECT_THAT(qwen([](auto& c) { c.head_dim = 7; }), ElementsAre(HasSubstr("head_dim: 7 is odd")));
  EXPECT_THAT(qwen([](auto& c) { c.dim = 250; }), IsEmpty());  // heads need not divide it
}

TEST(DeepseekV3Config, FaultsBetweenKeysNameTheKey) {
  EXPECT_THAT(deepseek([](auto& c) { c.num_groups = 3; }),
              ElementsAre("num_groups: 3 does not divide num_experts 16"));
  EXPECT_THAT(deepseek([](auto& c) { c.num_groups = 16; }),
              ElementsAre(HasSubstr("num_groups: 16 leave one expert each")));
  EXPECT_THAT(deepseek([](auto& c) { c.num_limited_groups = 5; }),
              ElementsAre("num_limited_groups: 5 is more than num_groups 4"));
  EXPECT_THAT(deepseek([](auto& c) { c.num_limited_groups = 1, c.top_k = 5; }),
              ElementsAre("top_k: 5 is more than the 4 experts of num_limited_groups 1"));
  EXPECT_THAT(deepseek([](auto& c) { c.top_k = 17; }),
              ElementsAre("top_k: 17 is more than num_experts 16"));
  EXPECT_THAT(deepseek([](auto& c) { c.num_dense_layers = 7; }),
              ElementsAre("num_dense_layers: 7 is more than num_layers 6"));
  EXPECT_THAT(deepseek([](auto& c) { c.qk_rope_head_dim = 15; }),
              ElementsAre(HasSubstr("qk_rope_head_dim: 15 is odd")));
  EXPECT_THAT(deepseek([](auto& c) { c.rope_scaling.beta_slow = 32; }),
              ElementsAre("rope_scaling.beta_slow: 32 is not between 0 and beta_fast 32"));
  EXPECT_THAT(deepseek([](auto& c) { c.route_scale = 0; }),
              ElementsAre(HasSubstr("route_scale: 0")));
  EXPECT_THAT(deepseek([](auto& c) { c.q_lora_rank = 0; }), IsEmpty());
  EXPECT_EQ(deepseek([](auto& c) { c.ffn_dim = c.kv_lora_rank = c.num_shared_experts = 0; }).size(),
            3u);
}

TEST(DeepseekV3Plan, NamesOnlyWhatTheConfigHas) {
  DeepseekV3ModelConfig model;
  const auto faults = [&](std::int64_t num_dense_layers) {
    model.apply_preset("debug");
    model.config.num_dense_layers = num_dense_layers;
    std::vector<std::string> names = {"blocks.0.norm1", "blocks.0.attention",
                                      "blocks.0.attention.core"};
    for (const auto& layer : model.spec().layers) names.push_back(layer.name);
    for (std::int64_t i = 0; i < model.config.num_layers; ++i) {
      const std::string block = "blocks." + std::to_string(i);
      if (model.config.has_experts(i)) {
        names.push_back(block + ".moe");
      } else {
        names.push_back(block + ".mlp.gate_up");
        names.push_back(block + ".mlp.down_proj");
      }
    }
    return check_plan(model.plan(), names);
  };
  EXPECT_THAT(faults(1), IsEmpty());
  EXPECT_THAT(faults(0), IsEmpty());
  EXPECT_THAT(faults(6), IsEmpty());
}

}  // namespace
}  // namespace coeus::models
