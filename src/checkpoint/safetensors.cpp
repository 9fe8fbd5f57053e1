#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace coeus::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's cap

struct DTypeEntry {
  DType dtype;
  const char* name;
  std::int64_t size;
};
constexpr std::array<DTypeEntry, 15> kDTypes{{{DType::F32, "F32", 4},
                                              {DType::BF16, "BF16", 2},
                                              {DType::F16, "F16", 2},
                                              {DType::I64, "I64", 8},
                                              {DType::I32, "I32", 4},
                                              {DType::U8, "U8", 1},
                                              {DType::F64, "F64", 8},
                                              {DType::BOOL, "BOOL", 1},
                                              {DType::I8, "I8", 1},
                                              {DType::I16, "I16", 2},
                                              {DType::U16, "U16", 2},
                                              {DType::U32, "U32", 4},
                                              {DType::U64, "U64", 8},
                                              {DType::F8_E4M3, "F8_E4M3", 1},
                                              {DType::F8_E5M2, "F8_E5M2", 1}}};

const DTypeEntry& entry_of(DType dtype) {
  for (const auto& e : kDTypes) {
    if (e.dtype == dtype) return e;
  }
  COEUS_ASSERT(false, "dtype {}", static_cast<int>(dtype));
}

// Reads the JSON of one header; every fault names the file and the tensor.
class HeaderParser {
 public:
  HeaderParser(const files::Path& path, std::uint64_t data_start, std::uint64_t file_size)
      : path_(path), data_start_(data_start), data_size_(file_size - data_start) {
    header_.file_size = file_size;
  }

  SafetensorsHeader parse(const Json& json) {
    if (!json.is_object()) fail("the header is no JSON object");
    std::vector<Entry> entries;
    for (const auto& [name, value] : json.items()) {
      if (name == "__metadata__") {
        check_metadata(value);
        header_.metadata = value;
      } else {
        entries.push_back(parse_tensor(name, value));
      }
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_tiling(entries);
    for (auto& e : entries) {
      header_.offsets.push_back(data_start_ + e.begin);
      header_.tensors.push_back(std::move(e.info));
    }
    return std::move(header_);
  }

 private:
  struct Entry {
    TensorInfo info;
    std::uint64_t begin, end;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(fmt::format("{}: {}", path_.string(), what));
  }
  // Quoted as JSON: a hostile name may hold newlines or escape codes.
  [[noreturn]] void fail(const std::string& tensor, const std::string& what) const {
    fail(fmt::format("tensor {}: {}", Json(tensor).dump(), what));
  }

  void check_metadata(const Json& value) const {
    if (!value.is_object()) fail("__metadata__ is no object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(fmt::format("__metadata__ {} is no string", Json(key).dump()));
    }
  }

  std::uint64_t parse_count(const std::string& tensor, const char* what, const Json& value) const {
    if (!value.is_number_unsigned()) {
      fail(tensor, fmt::format("{} holds {}, not a count", what, value.dump()));
    }
    return value.get<std::uint64_t>();
  }

  Entry parse_tensor(const std::string& name, const Json& value) const {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets")) {
      fail(name, "needs exactly dtype, shape and data_offsets");
    }
    const Json &dtype = value["dtype"], &shape = value["shape"], &range = value["data_offsets"];
    const auto known = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeEntry& e) {
      return dtype.is_string() && dtype.get_ref<const std::string&>() == e.name;
    });
    if (known == kDTypes.end()) fail(name, fmt::format("unknown dtype {}", dtype.dump()));
    if (!shape.is_array()) fail(name, "shape is no list");
    if (!range.is_array() || range.size() != 2) fail(name, "data_offsets is no pair");

    Entry e{{name, known->dtype, {}}, 0, 0};
    bool empty = false, overflow = false;
    std::int64_t bytes = known->size;
    for (const auto& d : shape) {
      const std::uint64_t dim = parse_count(name, "shape", d);
      overflow |= dim > std::uint64_t{1} << 62;
      e.info.shape.push_back(static_cast<std::int64_t>(dim));
      empty |= dim == 0;
      if (dim != 0) overflow |= __builtin_mul_overflow(bytes, e.info.shape.back(), &bytes);
    }
    if (overflow) fail(name, fmt::format("shape {} overflows", shape.dump()));
    e.begin = parse_count(name, "data_offsets", range[0]);
    e.end = parse_count(name, "data_offsets", range[1]);
    if (e.begin > e.end || e.end > data_size_) {
      fail(name, fmt::format("bytes {}..{} lie outside the file's {} data bytes", e.begin, e.end,
                             data_size_));
    }
    if (e.end - e.begin != (empty ? 0 : static_cast<std::uint64_t>(bytes))) {
      fail(name, fmt::format("{} bytes, but {} {} needs {}", e.end - e.begin, known->name,
                             shape.dump(), empty ? 0 : bytes));
    }
    return e;
  }

  void check_tiling(const std::vector<Entry>& sorted) const {
    std::uint64_t end = 0;
    for (const auto& e : sorted) {
      if (e.begin != end) {
        fail(e.info.name,
             fmt::format("begins at data byte {}, but the tensor before ends at {} ({})", e.begin,
                         end, e.begin < end ? "they overlap" : "a hole"));
      }
      end = e.end;
    }
    if (end != data_size_) {
      fail(fmt::format("the tensors end at data byte {}, the file at {}", end, data_size_));
    }
  }

  const files::Path& path_;
  std::uint64_t data_start_, data_size_;
  SafetensorsHeader header_;
};

}  // namespace

std::int64_t size_of(DType dtype) {
  return entry_of(dtype).size;
}

std::string to_string(DType dtype) {
  return entry_of(dtype).name;
}

std::int64_t TensorInfo::num_elements() const {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

std::int64_t TensorInfo::num_bytes() const {
  return num_elements() * size_of(dtype);
}

SafetensorsPlan plan_safetensors(const std::vector<TensorInfo>& tensors, const Json& metadata) {
  // Wider elements first, so that every tensor is aligned for readers that map the file.
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].dtype) > size_of(tensors[b].dtype);
  });

  SafetensorsPlan plan;
  plan.offsets.resize(tensors.size());
  std::vector<std::string> entries;
  if (!metadata.empty()) entries.push_back(fmt::format("\"__metadata__\":{}", metadata.dump()));
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    const TensorInfo& t = tensors[i];
    plan.offsets[i] = end;
    end += static_cast<std::uint64_t>(t.num_bytes());
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                                  Json(t.name).dump(), to_string(t.dtype), Json(t.shape).dump(),
                                  plan.offsets[i], end));
  }
  std::string json = fmt::format("{{{}}}", fmt::join(entries, ","));
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = json.size();
  plan.head.resize(sizeof length);
  std::memcpy(plan.head.data(), &length, sizeof length);
  plan.head += json;
  for (auto& offset : plan.offsets) offset += plan.head.size();
  plan.file_size = plan.head.size() + end;
  return plan;
}

SafetensorsHeader read_safetensors_header(const files::File& file) {
  const std::uint64_t size = file.size();
  std::uint64_t length = 0;
  const auto fail = [&](const std::string& what) {
    throw CheckpointError(
        fmt::format("{}: not a safetensors file: {}", file.path().string(), what));
  };
  if (size < sizeof length) fail(fmt::format("only {} bytes", size));
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > size - sizeof length) {
    fail(fmt::format("its header claims {} bytes, the file has {}", length, size));
  }
  if (length > kMaxHeader) {
    fail(fmt::format("its header claims {} bytes, more than {}", length, kMaxHeader));
  }
  std::string text(length, '\0');
  file.read(sizeof length, std::as_writable_bytes(std::span(text.data(), text.size())));
  if (text.empty() || text[0] != '{') fail("its header is no JSON object");
  const Json json = parse_json<CheckpointError>(text, file.path().string());
  return HeaderParser(file.path(), sizeof length + length, size).parse(json);
}

}  // namespace coeus::checkpoint
