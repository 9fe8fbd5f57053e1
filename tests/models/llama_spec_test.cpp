#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "models/llama/kind.h"

namespace coeus::models {
namespace {

using testing::ElementsAre;

LlamaConfig preset(const std::string& name) {
  return *LlamaConfig::preset(name);
}

ModelSpec spec_of(const LlamaConfig& config) {
  LlamaModelConfig model;
  model.config = config;
  return model.spec();
}

TEST(LlamaPresets, HaveThePublishedNumbersOfParameters) {
  const std::map<std::string, std::int64_t> published = {
      {"debug", 6163712},         {"15m", 15191712},      {"124m", 162220800},
      {"3.2-1b", 1235814400},     {"3.2-3b", 3212749824}, {"3-8b", 8030261248},
      {"3.1-8b", 8030261248},     {"3-70b", 70553706496}, {"3.1-70b", 70553706496},
      {"3.1-405b", 405853388800},
  };
  EXPECT_EQ(published.size(), LlamaConfig::preset_names().size());
  for (const auto& [name, count] : published) {
    EXPECT_EQ(spec_of(preset(name)).num_parameters(), count) << name;
  }
}

TEST(LlamaPresets, AllPassTheirOwnChecks) {
  for (const auto& name : LlamaConfig::preset_names()) {
    EXPECT_THAT(preset(name).check(), testing::IsEmpty()) << name;
  }
  EXPECT_FALSE(LlamaConfig::preset("4-8b"));
}

TEST(LlamaPresets, CarryRopeScalingFrom31On) {
  EXPECT_EQ(preset("debug").rope_theta, 10000);
  EXPECT_EQ(preset("124m").rope_theta, 10000);
  EXPECT_EQ(preset("3-8b").rope_theta, 500000);
  EXPECT_EQ(preset("3-8b").rope_scaling.factor, 1);
  EXPECT_EQ(preset("3.1-8b").rope_scaling.factor, 8);
  EXPECT_EQ(preset("3.1-405b").rope_scaling.factor, 8);
  EXPECT_EQ(preset("3.2-1b").rope_scaling.factor, 32);
}

TEST(LlamaSpec, FlopsPerTokenOf8bAreTorchTitans) {
  EXPECT_NEAR(spec_of(preset("3.1-8b")).flops_per_token(8192) / 1e9, 57.914, 0.001);
}

TEST(LlamaSpec, LayersAndParametersAreInChainOrder) {
  auto config = preset("debug");
  config.num_layers = 2;
  const auto spec = spec_of(config);
  std::vector<std::string> layers;
  for (const auto& layer : spec.layers) layers.push_back(layer.name);
  EXPECT_THAT(layers, ElementsAre("embed", "blocks.0", "blocks.1", "norm", "head"));
  std::vector<std::string> parameters, segments;
  for (const auto& parameter : spec.layers[2].parameters) {
    parameters.push_back(parameter.fqn);
    for (const auto& segment : parameter.segments) segments.push_back(segment.fqn);
  }
  EXPECT_THAT(parameters,
              ElementsAre("blocks.1.norm1.weight", "blocks.1.attention.qkv.weight",
                          "blocks.1.attention.o_proj.weight", "blocks.1.norm2.weight",
                          "blocks.1.mlp.gate_up.weight", "blocks.1.mlp.down_proj.weight"));
  EXPECT_THAT(segments,
              ElementsAre("blocks.1.norm1.weight", "blocks.1.attention.q_proj.weight",
                          "blocks.1.attention.k_proj.weight", "blocks.1.attention.v_proj.weight",
                          "blocks.1.attention.o_proj.weight", "blocks.1.norm2.weight",
                          "blocks.1.mlp.gate_proj.weight", "blocks.1.mlp.up_proj.weight",
                          "blocks.1.mlp.down_proj.weight"));
}

TEST(LlamaSpec, ShapesAreHuggingFaces) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& layer : spec_of(preset("3.1-8b")).layers) {
    for (const auto& parameter : layer.parameters) {
      for (const auto& segment : parameter.segments) shapes[segment.fqn] = segment.shape;
    }
  }
  EXPECT_THAT(shapes["embed.weight"], ElementsAre(128256, 4096));
  EXPECT_THAT(shapes["blocks.31.norm1.weight"], ElementsAre(4096));
  EXPECT_THAT(shapes["blocks.31.attention.q_proj.weight"], ElementsAre(4096, 4096));
  EXPECT_THAT(shapes["blocks.31.attention.k_proj.weight"], ElementsAre(1024, 4096));
  EXPECT_THAT(shapes["blocks.31.attention.v_proj.weight"], ElementsAre(1024, 4096));
  EXPECT_THAT(shapes["blocks.31.attention.o_proj.weight"], ElementsAre(4096, 4096));
  EXPECT_THAT(shapes["blocks.31.mlp.gate_proj.weight"], ElementsAre(14336, 4096));
  EXPECT_THAT(shapes["blocks.31.mlp.down_proj.weight"], ElementsAre(4096, 14336));
  EXPECT_THAT(shapes["head.weight"], ElementsAre(128256, 4096));
}

TEST(LlamaSpec, WeightsIntoTheResidualStreamStartSmallerWithDepth) {
  const auto spec = spec_of(preset("3.1-8b"));
  for (const auto& layer : spec.layers) {
    for (const auto& parameter : layer.parameters) {
      for (const auto& s : parameter.segments) {
        const bool gain = s.fqn.ends_with("norm.weight") || s.fqn.ends_with("norm1.weight") ||
                          s.fqn.ends_with("norm2.weight");
        const bool residual =
            s.fqn.ends_with("o_proj.weight") || s.fqn.ends_with("down_proj.weight");
        EXPECT_EQ(s.init.kind, gain ? InitKind::ones : InitKind::normal) << s.fqn;
        if (!gain) {
          EXPECT_DOUBLE_EQ(s.init.std, residual ? 0.02 / 8.0 : 0.02) << s.fqn;
        }
      }
    }
  }
}

TEST(LlamaSpec, ATiedHeadHoldsNoParameter) {
  const auto spec = spec_of(preset("3.2-1b"));
  EXPECT_TRUE(spec.layers.back().parameters.empty());
  EXPECT_THAT(spec.ties, ElementsAre(Tie{"head.weight", "embed.weight"}));
}

TEST(LlamaPlan, FitsTheModelsLayers) {
  LlamaModelConfig model;
  model.config = preset("debug");
  std::vector<std::string> names = {"blocks.0.norm1", "blocks.0.attention",
                                    "blocks.0.attention.core", "blocks.0.mlp.gate_up",
                                    "blocks.0.mlp.down_proj"};
  for (const auto& layer : model.spec().layers) names.push_back(layer.name);
  EXPECT_THAT(check_plan(model.plan(), names), testing::IsEmpty());
  EXPECT_EQ(plan_units(model.spec(), model.plan()).size(), 8u);
}

TEST(BuiltinModels, AreFoundByNameAndByHuggingFacesModelType) {
  EXPECT_THAT(model_names(), ElementsAre("llama", "mixtral", "qwen3_moe", "deepseek_v3"));
  EXPECT_EQ(make_model_config("lama"), nullptr);
  auto model = make_model_config("llama");
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(model->apply_preset("15m"));
  EXPECT_FALSE(model->apply_preset("16m"));
  auto copy = model->clone();
  copy->set_vocab_size(7);
  EXPECT_EQ(model->vocab_size(), 32000);
  EXPECT_EQ(copy->vocab_size(), 7);
  EXPECT_EQ(model_config_from_hf(model->hf_config(), "x")->spec().num_parameters(), 15191712);
  EXPECT_THROW(model_config_from_hf({{"model_type", "bert"}}, "x"), CheckpointError);
  EXPECT_THROW(model_config_from_hf(Json::array(), "x"), CheckpointError);
}

}  // namespace
}  // namespace coeus::models
