#include "train/save.h"

#include <map>

#include "base/error.h"
#include "core/torch.h"
#include "train/row_blocks.h"

namespace coeus::train {
namespace {

checkpoint::DType file_type(at::ScalarType type) {
  return type == at::kBFloat16 ? checkpoint::DType::BF16 : checkpoint::DType::F32;
}

const char* const kModelSet = "model";

std::span<std::byte> bytes_of(const Tensor& t, std::int64_t first, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(t.element_size());
  return {static_cast<std::byte*>(t.data_ptr()) + first * width,
          static_cast<std::size_t>(count * width)};
}

}  // namespace

Json TrainState::to_json() const {
  return {{"step", step},
          {"tokens", tokens},
          {"next_sample", next_sample},
          {"seed", seed},
          {"optimizer_count", optimizer_count},
          {"skipped_steps", skipped_steps},
          {"layout", layout}};
}

TrainState TrainState::from_json(const Json& json, const std::string& where) {
  try {
    return {.step = json.at("step"),
            .tokens = json.at("tokens"),
            .next_sample = json.at("next_sample"),
            .seed = json.at("seed"),
            .optimizer_count = json.at("optimizer_count"),
            .skipped_steps = json.at("skipped_steps"),
            .layout = json.at("layout")};
  } catch (const nlohmann::json::exception& e) {
    throw CheckpointError(fmt::format("{}/train_state.json: {}", where, e.what()));
  }
}

TensorRanges::TensorRanges(parallel::ParallelModel& model, optim::AdamW& optimizer,
                           const ModelConfig& names, at::ScalarType compute, comm::Groups& groups)
    : model_(model),
      optimizer_(optimizer),
      names_(names),
      compute_(compute),
      replicate_(groups.open("dp_replicate")),
      tp_(groups.open("tp")),
      writes_buffers_(groups.coordinate("stage") == 0) {}

std::vector<TensorRanges::Set> TensorRanges::tensor_sets() {
  std::vector<Set> sets = {{kModelSet, file_type(compute_), {}}};
  for (const auto& shard : optimizer_.shards()) sets[0].shards.push_back(shard.compute);
  if (compute_ != at::kFloat) {
    sets.push_back({"optimizer/master", checkpoint::DType::F32, {}});
    for (const auto& shard : optimizer_.shards()) sets.back().shards.push_back(shard.master);
  }
  for (auto& [name, tensors] : optimizer_.state())
    sets.push_back({"optimizer/" + name, checkpoint::DType::F32, std::move(tensors)});
  return sets;
}

std::vector<checkpoint::TensorSet> TensorRanges::sets() const {
  std::vector<checkpoint::TensorSet> out;
  for (const auto& set : const_cast<TensorRanges*>(this)->tensor_sets()) {
    checkpoint::TensorSet s{set.prefix, {}};
    for (const auto& layer : model_.spec().layers) {
      for (const auto& p : layer.parameters) {
        const auto dtype = p.compute == ComputeType::fp32 ? checkpoint::DType::F32 : set.dtype;
        for (const auto& segment : p.segments)
          s.tensors.push_back({names_.hf_name(segment.fqn), dtype, segment.shape});
      }
      if (set.prefix != kModelSet) continue;
      for (const auto& segment : layer.buffers)
        s.tensors.push_back({names_.hf_name(segment.fqn), checkpoint::DType::F32, segment.shape});
    }
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<checkpoint::WriteRun> TensorRanges::writes(std::vector<Tensor>& kept) {
  std::vector<checkpoint::WriteRun> runs;
  const auto& shards = optimizer_.shards();
  for (const auto& set : tensor_sets()) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto blocks = row_blocks(shards[i], set.shards[i], tp_);
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        if (static_cast<int>(b % replicate_.size()) != replicate_.rank()) continue;
        kept.push_back(blocks[b].values.cpu());
        runs.push_back({set.prefix,
                        names_.hf_name(shards[i].section->segments[blocks[b].segment].segment.fqn),
                        blocks[b].segment_offset, bytes_of(kept.back(), 0, kept.back().numel())});
      }
    }
  }
  write_buffers(runs, kept);
  return runs;
}

void TensorRanges::write_buffers(std::vector<checkpoint::WriteRun>& runs,
                                 std::vector<Tensor>& kept) {
  if (!writes_buffers_) return;
  for (const auto& buffer : model_.buffers()) {
    kept.push_back(buffer.values.cpu().contiguous());
    runs.push_back({kModelSet, names_.hf_name(buffer.segment.fqn), 0,
                    bytes_of(kept.back(), 0, kept.back().numel())});
  }
}

void TensorRanges::read_sets(const checkpoint::Reader& reader,
                             std::vector<std::pair<std::string, std::vector<Tensor>>> wanted,
                             const checkpoint::Peers& peers, Verify verify) {
  std::vector<checkpoint::ReadRun> runs;
  const auto& shards = optimizer_.shards();
  std::vector<std::pair<Tensor, Tensor>> back;  // host copy -> device
  for (const auto& buffer : model_.buffers()) {
    const Tensor host = at::zeros(buffer.values.sizes(), buffer.values.options().device(at::kCPU));
    back.emplace_back(host, buffer.values);
    runs.push_back({kModelSet, names_.hf_name(buffer.segment.fqn), 0,
                    bytes_of(host, 0, host.numel()), checkpoint::DType::F32});
  }
  for (const auto& [prefix, tensors] : wanted) {
    std::map<std::string, checkpoint::TensorInfo> present;
    for (auto& t : reader.tensors(prefix)) present.emplace(t.name, t);
    for (const auto& segment : model_.segments()) {
      const auto found = present.find(names_.hf_name(segment.fqn));
      if (found == present.end())
        throw CheckpointError(fmt::format("{}: {} holds no tensor {}", reader.path().string(),
                                          prefix, names_.hf_name(segment.fqn)));
      if (found->second.shape != segment.shape)
        throw CheckpointError(
            fmt::format("{}: {} is [{}], the model's is [{}]", reader.path().string(), found->first,
                        fmt::join(found->second.shape, ", "), fmt::join(segment.shape, ", ")));
    }
    for (std::size_t i = 0; i < shards.size(); ++i) {
      Tensor host = tensors[i].is_cuda()
                        ? at::zeros(tensors[i].sizes(), tensors[i].options().device(at::kCPU))
                        : tensors[i];
      if (tensors[i].is_cuda()) back.emplace_back(host, tensors[i]);
      for (const auto& run : shards[i].runs) {
        runs.push_back({prefix,
                        names_.hf_name(shards[i].section->segments[run.segment].segment.fqn),
                        run.segment_offset, bytes_of(host, run.shard_offset, run.count),
                        file_type(host.scalar_type())});
      }
    }
  }
  reader.read(std::move(runs), peers, verify);
  for (auto& [host, device] : back) device.copy_(host);
}

void TensorRanges::read(const checkpoint::Reader& reader, What what, const checkpoint::Peers& peers,
                        Verify verify) {
  at::NoGradGuard no_grad;
  const bool has_master = reader.has_set("optimizer/master");
  std::vector<Tensor> masters, rounded;
  for (const auto& shard : optimizer_.shards()) {
    masters.push_back(shard.master);
    rounded.push_back(at::zeros_like(shard.compute));
  }
  std::vector<std::pair<std::string, std::vector<Tensor>>> wanted = {
      {has_master ? "optimizer/master" : kModelSet, masters}};
  const bool check_rounding = has_master && compute_ != at::kFloat &&
                              reader.tensors(kModelSet).at(0).dtype == file_type(compute_);
  if (check_rounding) wanted.emplace_back(kModelSet, rounded);
  if (what == What::weights_and_moments) {
    for (auto& [name, tensors] : optimizer_.state())
      wanted.emplace_back("optimizer/" + name, tensors);
  }
  read_sets(reader, std::move(wanted), peers, verify);
  for (std::size_t i = 0; check_rounding && i < masters.size(); ++i) {
    if (!masters[i].to(rounded[i].scalar_type()).equal(rounded[i]))
      throw CheckpointError(
          fmt::format("{}: the fp32 master of unit {} does not round to the model's weights",
                      reader.path().string(), optimizer_.shards()[i].unit));
  }
  model_.publish();
}

checkpoint::Peers peers_over(comm::Communicator& host) {
  return {
      .rank = host.rank(),
      .size = host.size(),
      .all_gather = [&host](const std::string& mine) { return comm::all_gather_bytes(host, mine); },
      .barrier = [&host] { host.barrier({.label = "checkpoint"}); }};
}

std::vector<std::pair<std::string, std::string>> huggingface_texts(const ModelConfig& model,
                                                                   const data::Tokenizer& tokenizer,
                                                                   at::ScalarType compute) {
  Json config = model.hf_config(), generation = {{"_from_model_config", true}};
  const std::string dtype = compute == at::kBFloat16 ? "bfloat16" : "float32";
  config["torch_dtype"] = dtype;
  config["dtype"] = dtype;
  for (Json* j : {&config, &generation}) {
    (*j)["bos_token_id"] = tokenizer.bos_id() ? Json(*tokenizer.bos_id()) : Json();
    (*j)["eos_token_id"] = tokenizer.eos_id() ? Json(*tokenizer.eos_id()) : Json();
  }
  auto texts = tokenizer.files();
  texts.emplace_back("config.json", config.dump(2) + "\n");
  texts.emplace_back("generation_config.json", generation.dump(2) + "\n");
  return texts;
}

}  // namespace coeus::train
