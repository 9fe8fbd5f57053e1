#include "inference/load.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "core/torch.h"

namespace coeus::inference {
namespace {

using checkpoint::DType;
using checkpoint::TensorInfo;

// Where a segment or buffer lies in the model, and what the file calls it.
struct Target {
  const TensorInfo* info;
  Tensor view;  // its rows of the parameter, or the buffer
};

std::vector<Target> targets_of(nn::Model& model, const ModelConfig& config,
                               const std::vector<TensorInfo>& tensors, const files::Path& folder) {
  std::map<std::string, const TensorInfo*> by_name;
  for (const auto& info : tensors) by_name[info.name] = &info;
  std::vector<Target> targets;
  const auto add = [&](const Segment& segment, const Tensor& view) {
    const std::string name = config.hf_name(segment.fqn);
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      throw CheckpointError(fmt::format("{}: holds no tensor {}", folder.string(), name));
    }
    if (found->second->shape != segment.shape) {
      throw CheckpointError(
          fmt::format("{}: {} has shape [{}], the model wants [{}]", folder.string(), name,
                      fmt::join(found->second->shape, ", "), fmt::join(segment.shape, ", ")));
    }
    targets.push_back({found->second, view});
  };
  const auto buffers = model.buffers();
  for (const auto& layer : model.layer_specs()) {
    for (const auto& spec : layer.parameters) {
      const Tensor flat = model.parameter(spec.fqn).detach().view({-1});
      std::int64_t offset = 0;
      for (const auto& segment : spec.segments) {
        add(segment, flat.narrow(0, offset, segment.num_elements()));
        offset += segment.num_elements();
      }
    }
    for (const auto& segment : layer.buffers) add(segment, *buffers.at(segment.fqn));
  }
  return targets;
}

void read_weights(const checkpoint::Reader& reader, const std::vector<Target>& targets) {
  std::vector<checkpoint::ReadRun> runs;
  std::vector<Tensor> staged;  // on the host; the target itself where it lies there
  for (const auto& [info, view] : targets) {
    staged.push_back(view.is_cpu() ? view : at::empty_like(view, at::device(at::kCPU)));
    const Tensor& host = staged.back();
    runs.push_back({.set = "model",
                    .tensor = info->name,
                    .offset = 0,
                    .bytes = {static_cast<std::byte*>(host.data_ptr()), host.nbytes()},
                    .dtype = host.scalar_type() == at::kFloat ? DType::F32 : DType::BF16});
  }
  reader.read(std::move(runs), {}, Verify::own);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (!targets[i].view.is_cpu()) targets[i].view.copy_(staged[i]);
  }
}

// fp32 on CPU, where bf16 products are slow; on GPU as the files have it.
at::ScalarType compute_type(const std::vector<TensorInfo>& tensors, at::Device device) {
  if (device.is_cpu() || tensors.empty() || tensors.front().dtype == DType::F32) return at::kFloat;
  return at::kBFloat16;
}

}  // namespace

files::Path find_model_folder(const files::Path& path) {
  if (!files::exists(path)) {
    throw CheckpointError(fmt::format("{}: no such run, step or model folder", path.string()));
  }
  if (files::exists(path / "config.json")) return path;
  const files::Path checkpoints =
      files::is_directory(path / "checkpoints") ? path / "checkpoints" : path;
  const auto found = checkpoint::find_checkpoints(checkpoints);
  if (!found.empty()) return found.back().path;
  throw CheckpointError(
      fmt::format("{}: holds neither a valid checkpoint nor a config.json", path.string()));
}

LoadedModel load_model(const files::Path& path, const ModelFactory& factory, at::Device device) {
  LoadedModel loaded;
  loaded.device = device;
  loaded.folder = find_model_folder(path);
  const auto reader = checkpoint::Reader::open(loaded.folder);
  const std::string where = (loaded.folder / "config.json").string();
  loaded.config = model_config_from_hf(reader.config(), where);
  if (const auto it = reader.config().find("max_position_embeddings");
      it != reader.config().end() && it->is_number_integer()) {
    loaded.max_positions = it->get<std::int64_t>();
  }
  const auto tensors = reader.tensors("model");
  loaded.model = factory(*loaded.config);
  nn::materialize(*loaded.model, device, compute_type(tensors, device));
  read_weights(reader, targets_of(*loaded.model, *loaded.config, tensors, loaded.folder));
  loaded.tokenizer = data::load_tokenizer(loaded.folder.string());
  return loaded;
}

at::Device default_device() {
  return at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

}  // namespace coeus::inference
