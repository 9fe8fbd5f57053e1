#include "inference/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "tests/inference/tiny_model.h"

namespace coeus::inference {
namespace {

using testing::HasSubstr;

const Json kConfig = {{"model_type", "llama"},
                      {"architectures", {"LlamaForCausalLM"}},
                      {"hidden_size", 16},
                      {"num_hidden_layers", 2},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"intermediate_size", 24},
                      {"vocab_size", 257},
                      {"rms_norm_eps", 1e-5},
                      {"rope_theta", 10000.0},
                      {"max_position_embeddings", 64},
                      {"tie_word_embeddings", false}};

std::unique_ptr<nn::Model> make_unset(const ModelConfig&) {
  return std::make_unique<TinyModel>();
}

// A run directory in a folder of its own, one checkpoint for each step.
class LoadTest : public testing::Test {
 protected:
  LoadTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    run_ = files::Path(testing::TempDir()) / (std::string("coeus_load_") + test->name());
    files::remove_all(run_);
    files::make_directories(run_ / "checkpoints");
  }
  ~LoadTest() override { files::remove_all(run_); }

  // `skip` and `reshape` name a tensor to leave out or to give another shape.
  files::Path save(std::int64_t step, nn::Model& model, at::ScalarType dtype = at::kFloat,
                   const std::string& skip = "", const std::string& reshape = "") {
    const auto config = model_config_from_hf(kConfig, "config.json");
    checkpoint::SaveRequest request;
    request.directory = run_ / "checkpoints";
    request.step = step;
    checkpoint::TensorSet set{"model", {}};
    std::vector<Tensor> kept;
    for (const auto& layer : model.layer_specs()) {
      for (const auto& p : layer.parameters) {
        const Tensor flat = model.parameter(p.fqn).detach().flatten().to(dtype);
        kept.push_back(flat);
        std::int64_t at = 0;
        for (const auto& segment : p.segments) {
          const std::string name = config->hf_name(segment.fqn);
          const std::int64_t count = segment.num_elements();
          const Tensor part = flat.narrow(0, at, count);
          at += count;
          if (name == skip) continue;
          auto shape = segment.shape;
          if (name == reshape) shape = {count};
          set.tensors.push_back(
              {name, dtype == at::kFloat ? checkpoint::DType::F32 : checkpoint::DType::BF16,
               shape});
          request.runs.push_back(
              {"model", name, 0, {static_cast<std::byte*>(part.data_ptr()), part.nbytes()}});
        }
      }
    }
    request.sets = {set};
    request.texts = data::load_tokenizer("byte")->files();
    request.texts.emplace_back("config.json", kConfig.dump());
    request.stamps = Json::object();
    return checkpoint::save(request, {});
  }

  std::string fault(const files::Path& path) {
    try {
      load_model(path, make_unset, at::kCPU);
    } catch (const CheckpointError& e) {
      return e.what();
    }
    return "";
  }

  files::Path run_;
};

Tensor logits_of(nn::Model& model) {
  return full_logits(model, at::arange(40).unsqueeze(0));
}

TEST_F(LoadTest, ARunGivesItsNewestCheckpoint) {
  const auto model = make_tiny_model();
  save(1, *model);
  model->parameter("norm.weight").data().fill_(2);
  const files::Path newest = save(2, *model);
  const LoadedModel loaded = load_model(run_, make_unset, at::kCPU);
  EXPECT_EQ(loaded.folder, newest);
  EXPECT_EQ(loaded.max_positions, 64);
  EXPECT_EQ(loaded.tokenizer->vocab_size(), 257);
  EXPECT_TRUE(at::equal(logits_of(*loaded.model), logits_of(*model)));
}

TEST_F(LoadTest, AStepFolderIsReadAsItIs) {
  const auto model = make_tiny_model();
  const files::Path first = save(1, *model);
  const Tensor expected = logits_of(*model);
  model->parameter("norm.weight").data().fill_(2);
  save(2, *model);
  EXPECT_TRUE(at::equal(logits_of(*load_model(first, make_unset, at::kCPU).model), expected));
}

TEST_F(LoadTest, AHuggingFaceFolderNeedsNoManifest) {
  const auto model = make_tiny_model();
  const files::Path folder = run_ / "exported";
  files::rename(save(1, *model), folder);
  files::remove(folder / "manifest.json");
  const LoadedModel loaded = load_model(folder, make_unset, at::kCPU);
  EXPECT_TRUE(at::equal(logits_of(*loaded.model), logits_of(*model)));
}

TEST_F(LoadTest, Bf16WeightsAreComputedInFp32OnCpu) {
  const auto model = make_tiny_model();
  const files::Path folder = save(1, *model, at::kBFloat16);
  for (auto& [name, p] : model->parameters()) p->data().copy_(p->data().to(at::kBFloat16));
  const LoadedModel loaded = load_model(folder, make_unset, at::kCPU);
  EXPECT_EQ(loaded.model->parameter("norm.weight").scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(logits_of(*loaded.model), logits_of(*model)));
}

TEST_F(LoadTest, AMissingTensorIsNamed) {
  EXPECT_THAT(fault(save(1, *make_tiny_model(), at::kFloat, "lm_head.weight")),
              HasSubstr("holds no tensor lm_head.weight"));
}

TEST_F(LoadTest, ATensorOfAnotherShapeIsNamed) {
  const std::string name = "model.layers.1.self_attn.k_proj.weight";
  EXPECT_THAT(fault(save(1, *make_tiny_model(), at::kFloat, "", name)),
              HasSubstr(name + " has shape [128], the model wants [8, 16]"));
}

TEST_F(LoadTest, PathsThatHoldNoModelAreRefused) {
  EXPECT_THAT(fault(run_ / "nowhere"), HasSubstr("nowhere: no such run"));
  EXPECT_THAT(fault(run_), HasSubstr("holds neither a valid checkpoint nor a config.json"));
}

}  // namespace
}  // namespace coeus::inference
