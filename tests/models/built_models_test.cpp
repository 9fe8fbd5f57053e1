#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch.h"
#include "models/deepseek_v3/kind.h"
#include "models/deepseek_v3/model.h"
#include "models/llama/kind.h"
#include "models/llama/model.h"
#include "models/mixtral/kind.h"
#include "models/mixtral/model.h"
#include "models/qwen3_moe/kind.h"
#include "models/qwen3_moe/model.h"

namespace coeus {
namespace {

template <class Kind, class Model>
struct Built {
  using KindType = Kind;
  using ModelType = Model;
};

template <class T>
class BuiltModel : public ::testing::Test {};
using All = ::testing::Types<Built<models::LlamaModelConfig, models::Llama>,
                             Built<models::MixtralModelConfig, models::Mixtral>,
                             Built<models::Qwen3MoeModelConfig, models::Qwen3Moe>,
                             Built<models::DeepseekV3ModelConfig, models::DeepseekV3>>;
TYPED_TEST_SUITE(BuiltModel, All);

TYPED_TEST(BuiltModel, holds_what_its_spec_says_name_by_name_and_shape_by_shape) {
  typename TypeParam::KindType kind;
  std::vector<std::string> presets = kind.presets();
  for (const bool tied : {false, true}) {
    for (const auto& preset : presets) {
      ASSERT_TRUE(kind.apply_preset(preset));
      kind.config.tie_embeddings = tied;
      // Null storages: no memory, whatever the size.
      const typename TypeParam::ModelType model(kind.config);
      const ModelSpec spec = kind.spec();
      const auto built = model.layer_specs();
      ASSERT_EQ(built.size(), spec.layers.size()) << preset;
      for (std::size_t i = 0; i < built.size(); ++i) {
        EXPECT_EQ(built[i].name, spec.layers[i].name);
        // One line for a difference, not a page of experts.
        EXPECT_TRUE(built[i].parameters == spec.layers[i].parameters) << preset << built[i].name;
        EXPECT_TRUE(built[i].buffers == spec.layers[i].buffers) << preset << built[i].name;
      }
      EXPECT_EQ(model.ties(), spec.ties);
    }
  }
}

TYPED_TEST(BuiltModel, has_the_layers_that_its_plan_names) {
  typename TypeParam::KindType kind;
  ASSERT_TRUE(kind.apply_preset("debug"));
  const typename TypeParam::ModelType model(kind.config);
  std::vector<std::string> names;
  for (const auto& link : model.chain()) {
    link.layer->visit(link.name,
                      [&](const std::string& name, nn::LayerBase&) { names.push_back(name); });
  }
  EXPECT_THAT(check_plan(kind.plan(), names), testing::IsEmpty());
}

}  // namespace
}  // namespace coeus
