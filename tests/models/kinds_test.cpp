// What holds for every kind and preset there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "models/model_config.h"

namespace coeus {
namespace {

using testing::IsEmpty;

std::unique_ptr<ModelConfig> make(const std::string& kind, const std::string& preset) {
  auto model = make_model_config(kind);
  EXPECT_TRUE(model->apply_preset(preset)) << kind << " " << preset;
  return model;
}

template <class F>
void for_each_preset(F f) {
  for (const auto& kind : model_names()) {
    for (const auto& preset : make_model_config(kind)->presets()) {
      SCOPED_TRACE(kind + "/" + preset);
      f(*make(kind, preset));
    }
  }
}

struct Published {
  const char *kind, *preset;
  std::int64_t parameters;
  double parameters_billions, active_billions;  // as announced
};

TEST(Presets, HaveThePublishedNumbersOfParameters) {
  // Mixtral 8x7B and 8x22B: arXiv 2401.04088, mistral.ai; Qwen3: arXiv 2505.09388; Moonlight: arXiv
  // 2502.16982, which counts 15.29 and 2.24 without both vocabularies of 0.34 each; DeepSeek-V3:
  // arXiv 2412.19437, without the MTP module.
  const Published published[] = {
      {"mixtral", "8x7b", 46702792704, 46.7, 12.9},
      {"mixtral", "8x22b", 140630071296, 140.6, 39.2},
      {"qwen3_moe", "30b-a3b", 30532122624, 30.5, 3.3},
      {"qwen3_moe", "235b-a22b", 235093634560, 235.1, 22.2},
      {"deepseek_v3", "16b-a3b", 15960108544, 15.29 + 0.67, 2.24 + 0.67},
      {"deepseek_v3", "671b", 671026404352, 671.0, 37.0},
  };
  for (const auto& p : published) {
    const ModelSpec spec = make(p.kind, p.preset)->spec();
    EXPECT_EQ(spec.num_parameters(), p.parameters) << p.kind << " " << p.preset;
    EXPECT_NEAR(spec.num_parameters() / 1e9 / p.parameters_billions, 1, 0.002) << p.preset;
    EXPECT_NEAR(spec.num_active_parameters() / 1e9 / p.active_billions, 1, 0.02) << p.preset;
  }
}

TEST(Presets, OfDenseModelsAreActiveAsAWhole) {
  const ModelSpec spec = make("llama", "3.1-8b")->spec();
  EXPECT_EQ(spec.num_active_parameters(), spec.num_parameters());
}

TEST(Presets, PassTheirOwnChecks) {
  for_each_preset([](const ModelConfig& model) { EXPECT_THAT(model.check(), IsEmpty()); });
}

TEST(Presets, AreReadBackFromTheConfigJsonTheyWrite) {
  for_each_preset([](const ModelConfig& model) {
    const Json written = model.hf_config();
    const auto read = model_config_from_hf(written, "f");
    EXPECT_EQ(read->name(), model.name());
    EXPECT_EQ(read->hf_config(), written);
    EXPECT_EQ(read->spec().num_parameters(), model.spec().num_parameters());
    EXPECT_EQ(read->spec().num_active_parameters(), model.spec().num_active_parameters());
  });
}

TEST(Presets, GiveEverySegmentAndBufferATensorOfItsOwn) {
  for_each_preset([](const ModelConfig& model) {
    std::set<std::string> names;
    std::size_t count = 0;
    const auto name = [&](const Segment& segment) {
      names.insert(model.hf_name(segment.fqn));
      ++count;
    };
    for (const auto& layer : model.spec().layers) {
      for (const auto& parameter : layer.parameters) {
        for (const auto& segment : parameter.segments) name(segment);
      }
      for (const auto& buffer : layer.buffers) name(buffer);
    }
    EXPECT_EQ(names.size(), count);
    EXPECT_THROW(model.hf_name("blocks.0.moe.experts.gate_up.weight"), AssertionError);
    EXPECT_THROW(model.hf_name("blocks.x.norm1.weight"), AssertionError);
    EXPECT_THROW(model.hf_name("blocks.0.norm1.weights"), AssertionError);
  });
}

// 6·(active − input embedding) + 12·layers·heads·head_dim·T by hand for Qwen3-30B-A3B.
TEST(Flops, CountTheExpertsThatATokenIsSentTo) {
  const ModelSpec spec = make("qwen3_moe", "30b-a3b")->spec();
  const double attention = 2048.0 * (32 + 2 * 4 + 32) * 128 + 2 * 128;
  const double layer = attention + 8 * 3 * 2048.0 * 768 + 128 * 2048.0 + 2 * 2048.0;
  const double active = 48 * layer + 2048 + 2048.0 * 151936;
  EXPECT_DOUBLE_EQ(spec.flops_per_token(4096), 6 * active + 12.0 * 48 * 32 * 128 * 4096);
}

TEST(Flops, CountBothHeadSizesOfLatentAttention) {
  const ModelSpec spec = make("deepseek_v3", "671b")->spec();
  const double scores = 6.0 * 61 * 128 * 192, values = 6.0 * 61 * 128 * 128;
  EXPECT_DOUBLE_EQ(spec.flops_per_token(4096) - spec.flops_per_token(0), (scores + values) * 4096);
}

}  // namespace
}  // namespace coeus
