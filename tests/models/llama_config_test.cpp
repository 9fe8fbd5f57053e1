#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "models/llama/config.h"

namespace coeus::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> faults_after(const std::function<void(LlamaConfig&)>& change) {
  auto config = *LlamaConfig::preset("3.1-8b");
  change(config);
  return config.check();
}

TEST(LlamaConfig, FaultsBetweenKeysNameTheKey) {
  EXPECT_THAT(faults_after([](auto& c) { c.num_heads = 24; }),
              ElementsAre(HasSubstr("num_heads: 24 does not divide dim 4096")));
  EXPECT_THAT(faults_after([](auto& c) { c.num_kv_heads = 5; }),
              ElementsAre(HasSubstr("num_kv_heads: 5 does not divide num_heads 32")));
  EXPECT_THAT(faults_after([](auto& c) { c.num_kv_heads = 64; }),
              ElementsAre(HasSubstr("num_kv_heads: 64 does not divide num_heads 32")));
  EXPECT_THAT(faults_after([](auto& c) { c.num_heads = c.num_kv_heads = c.dim; }),
              ElementsAre(HasSubstr("is odd")));
  EXPECT_THAT(faults_after([](auto& c) { c.num_heads = 0; }),
              ElementsAre(HasSubstr("num_heads: 0")));
  EXPECT_THAT(faults_after([](auto& c) { c.dim = 0; }), ElementsAre(HasSubstr("dim: 0")));
  EXPECT_THAT(faults_after([](auto& c) { c.num_layers = -1; }),
              ElementsAre(HasSubstr("num_layers: -1")));
  EXPECT_THAT(faults_after([](auto& c) { c.ffn_dim = 0; }), ElementsAre(HasSubstr("ffn_dim: 0")));
  EXPECT_THAT(faults_after([](auto& c) { c.vocab_size = -1; }),
              ElementsAre(HasSubstr("vocab_size: -1")));
  EXPECT_THAT(faults_after([](auto& c) { c.rope_theta = 0; }),
              ElementsAre(HasSubstr("rope_theta: 0")));
  EXPECT_THAT(faults_after([](auto& c) { c.norm_eps = 0; }), ElementsAre(HasSubstr("norm_eps: 0")));
  EXPECT_THAT(faults_after([](auto& c) { c.rope_scaling.factor = 0.5; }),
              ElementsAre(HasSubstr("rope_scaling.factor: 0.5")));
  EXPECT_THAT(faults_after([](auto& c) { c.rope_scaling.low_freq_factor = 4; }),
              ElementsAre(HasSubstr("rope_scaling.low_freq_factor: 4")));
}

TEST(LlamaConfig, SeveralFaultsAreReportedTogether) {
  EXPECT_EQ(faults_after([](auto& c) { c.ffn_dim = c.num_layers = 0, c.num_kv_heads = 3; }).size(),
            3u);
}

TEST(LlamaConfig, AVocabularyLeftToTheTokenizerIsNoFault) {
  EXPECT_THAT(faults_after([](auto& c) { c.vocab_size = 0; }), testing::IsEmpty());
}

}  // namespace
}  // namespace coeus::models
