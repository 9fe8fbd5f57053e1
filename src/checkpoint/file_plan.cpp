#include "checkpoint/file_plan.h"

#include <algorithm>

#include "base/error.h"

namespace coeus::checkpoint {
namespace {

constexpr const char* kModelSet = "model";

std::string key_of(const std::string& set, const std::string& tensor) {
  return set + '\0' + tensor;
}

// Consecutive tensors, each file as full as it gets without passing the limit.
std::vector<std::vector<TensorInfo>> split(const std::vector<TensorInfo>& tensors,
                                           std::int64_t max_file_bytes) {
  std::vector<std::vector<TensorInfo>> parts(1);
  std::int64_t filled = 0;
  for (const auto& t : tensors) {
    if (!parts.back().empty() && filled + t.num_bytes() > max_file_bytes) {
      parts.emplace_back();
      filled = 0;
    }
    parts.back().push_back(t);
    filled += t.num_bytes();
  }
  return parts;
}

}  // namespace

FilePlan::FilePlan(const std::vector<TensorSet>& sets, std::int64_t max_file_bytes) {
  for (const auto& set : sets) add_set(set, max_file_bytes);
  for (std::size_t f = 0; f < files_.size(); ++f) {
    for (std::size_t i = 0; i < files_[f].tensors.size(); ++i) {
      const std::string& name = files_[f].tensors[i].name;
      if (!tensors_.emplace(key_of(files_[f].set, name), TensorPlace{f, i}).second) {
        throw CheckpointError(fmt::format("{}: tensor {} is listed twice", files_[f].set, name));
      }
    }
  }
}

void FilePlan::add_set(const TensorSet& set, std::int64_t max_file_bytes) {
  for (const auto& f : files_) {
    if (f.set == set.prefix) throw CheckpointError(fmt::format("{} is listed twice", set.prefix));
  }
  auto parts = split(set.tensors, max_file_bytes);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string name = parts.size() == 1 ? fmt::format("{}.safetensors", set.prefix)
                                         : fmt::format("{}-{:05}-of-{:05}.safetensors", set.prefix,
                                                       i + 1, parts.size());
    SafetensorsPlan layout = plan_safetensors(parts[i], Json{{"format", "pt"}});
    files_.push_back({set.prefix, std::move(name), std::move(parts[i]), std::move(layout)});
  }
}

std::uint64_t FilePlan::num_bytes() const {
  std::uint64_t n = 0;
  for (const auto& f : files_) n += f.layout.file_size;
  return n;
}

std::uint64_t FilePlan::fingerprint() const {
  std::uint64_t h = 0;
  for (const auto& f : files_) {
    const std::string text = f.name + '\0' + f.layout.head;
    h = files::hash(std::as_bytes(std::span(text.data(), text.size())), h);
  }
  return h;
}

FilePlan::Place FilePlan::place(const WriteRun& run) const {
  const auto found = tensors_.find(key_of(run.set, run.tensor));
  if (found == tensors_.end()) {
    throw CheckpointError(fmt::format("{}: no tensor {}", run.set, run.tensor));
  }
  const auto [file, index] = found->second;
  const TensorInfo& t = files_[file].tensors[index];
  const auto width = size_of(t.dtype), bytes = static_cast<std::int64_t>(run.bytes.size());
  if (run.offset < 0 || bytes % width != 0 || run.offset > t.num_elements() - bytes / width) {
    throw CheckpointError(fmt::format("{}: a run of {} bytes at element {} does not fit tensor {}",
                                      run.set, bytes, run.offset, run.tensor));
  }
  return {file, files_[file].layout.offsets[index] + static_cast<std::uint64_t>(run.offset * width),
          run.bytes.size()};
}

std::string FilePlan::tensor_at(std::size_t file, std::uint64_t offset) const {
  const PlannedFile& f = files_[file];
  for (std::size_t i = 0; i < f.tensors.size(); ++i) {
    const auto begin = f.layout.offsets[i];
    if (offset >= begin && offset - begin < static_cast<std::uint64_t>(f.tensors[i].num_bytes())) {
      return f.tensors[i].name;
    }
  }
  return "the header";
}

std::string FilePlan::model_index() const {
  std::int64_t bytes = 0;
  std::vector<std::string> entries;
  std::size_t num_files = 0;
  for (const auto& f : files_) {
    if (f.set != kModelSet) continue;
    ++num_files;
    for (const auto& t : f.tensors) {
      bytes += t.num_bytes();
      entries.push_back(fmt::format("    {}: {}", Json(t.name).dump(), Json(f.name).dump()));
    }
  }
  if (num_files < 2) return {};
  std::sort(entries.begin(), entries.end());
  return fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{\n{}\n  }}\n}}\n",
      bytes, fmt::join(entries, ",\n"));
}

}  // namespace coeus::checkpoint
