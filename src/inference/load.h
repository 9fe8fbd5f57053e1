#pragma once
#include <coeus/nn/model.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/files.h"
#include "data/tokenizer.h"
#include "models/model_config.h"

namespace coeus::inference {

// The model that a configuration describes, its parameters without memory yet.
using ModelFactory = std::function<std::unique_ptr<nn::Model>(const ModelConfig&)>;

// A model with weights, ready to evaluate or decode on one device.
struct LoadedModel {
  files::Path folder;  // what was read: a step folder or a Hugging Face folder
  std::unique_ptr<ModelConfig> config;
  std::unique_ptr<nn::Model> model;
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::int64_t max_positions = 0;  // longest context; 0: not said
  at::Device device = at::kCPU;
};

// PATH of `eval` and `generate` -> the folder that holds the model: of a run directory its newest
// valid checkpoint, else `path` itself. Throws CheckpointError for anything else.
files::Path find_model_folder(const files::Path& path);

// Reads that folder onto `device`: fp32 on CPU, on GPU the dtype of the files (fp32, else bf16).
LoadedModel load_model(const files::Path& path, const ModelFactory& factory, at::Device device);

// The first GPU if there is one, else the CPU.
at::Device default_device();

}  // namespace coeus::inference
