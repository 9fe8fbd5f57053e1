#include "checkpoint/safetensors.h"

#include <cmath>
#include <limits>

#include "checkpoint/convert.h"
#include "tests/checkpoint/support.h"

namespace coeus::checkpoint {
namespace {

std::string with_length(std::string json, std::string data, std::uint64_t length) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + json + data;
}
std::string file_of(const std::string& json, std::size_t data_bytes) {
  return with_length(json, std::string(data_bytes, 'x'), json.size());
}

struct Hostile {
  const char* what;
  std::string bytes, expected;
};

TEST(Safetensors, RefuseHostileHeadersNamingTheFileAndTheFault) {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
  };
  const auto one = [&](const std::string& dtype, const std::string& shape,
                       const std::string& offsets, std::size_t data) {
    return file_of(fmt::format(R"({{"t":{}}})", tensor(dtype, shape, offsets)), data);
  };
  const std::string four = tensor("F32", "[1]", "[0,4]");
  const std::vector<Hostile> table{
      {"empty file", "", "only 0 bytes"},
      {"short file", "abc", "only 3 bytes"},
      {"length beyond the file", with_length("{}", "", 1000), "claims 1000 bytes"},
      {"length near 2^64", with_length("{}", "", ~std::uint64_t{0}), "claims 18446744073709551615"},
      {"zero length", with_length("", "xxxx", 0), "no JSON object"},
      {"no object", file_of("[1,2]", 0), "no JSON object"},
      {"broken JSON", file_of(R"({"t":)", 0), "JSON"},
      {"deep nesting", file_of("{\"t\":" + std::string(5000, '['), 0), "nested"},
      {"invalid UTF-8", file_of("{\"\xff\":1}", 0), "JSON"},
      {"duplicate name", file_of(fmt::format(R"({{"t":{0},"t":{0}}})", four), 4), "duplicate"},
      {"tensor is no object", file_of(R"({"t":5})", 0), "needs exactly"},
      {"missing dtype", file_of(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", 4), "needs exactly"},
      {"unknown dtype", one("Q4_0", "[1]", "[0,4]", 4), "unknown dtype \"Q4_0\""},
      {"dtype is a number", file_of(R"({"t":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})", 4),
       "unknown dtype 3"},
      {"shape is no list", one("F32", "4", "[0,4]", 4), "shape is no list"},
      {"negative dim", one("F32", "[-1]", "[0,4]", 4), "holds -1"},
      {"fractional dim", one("F32", "[1.5]", "[0,4]", 4), "holds 1.5"},
      {"dim is text", one("F32", "[\"1\"]", "[0,4]", 4), "not a count"},
      {"shape overflows", one("F32", "[4294967296,4294967296]", "[0,4]", 4), "overflows"},
      {"dim overflows", one("F32", "[18446744073709551615]", "[0,4]", 4), "overflows"},
      {"product wraps to fit", one("U8", "[4294967296,4294967296,4]", "[0,0]", 0), "overflows"},
      {"huge count", one("F32", "[1000000000000]", "[0,4]", 4), "needs 4000000000000"},
      {"offsets backwards", one("F32", "[1]", "[4,0]", 4), "lie outside"},
      {"offsets beyond the file", one("F32", "[2]", "[0,8]", 4), "lie outside"},
      {"negative offset", one("F32", "[1]", "[-4,0]", 4), "holds -4"},
      {"three offsets", one("F32", "[1]", "[0,2,4]", 4), "no pair"},
      {"size disagrees with shape", one("F32", "[1]", "[0,8]", 8), "8 bytes, but F32 [1] needs 4"},
      {"data after the last tensor", one("F32", "[1]", "[0,4]", 9), "end at data byte 4"},
      {"hole",
       file_of(fmt::format(R"({{"a":{},"b":{}}})", four, tensor("F32", "[1]", "[8,12]")), 12),
       "a hole"},
      {"overlap",
       file_of(fmt::format(R"({{"a":{},"b":{}}})", four, tensor("F32", "[1]", "[2,6]")), 6),
       "overlap"},
      {"metadata is a list", file_of(R"({"__metadata__":[]})", 0), "__metadata__"},
      {"metadata holds a number", file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__"},
  };
  Folder folder;
  for (const auto& h : table) {
    files::write_text(folder / "h.safetensors", h.bytes);
    const auto error = error_of(
        [&] { read_safetensors_header(files::File::open_to_read(folder / "h.safetensors")); });
    EXPECT_NE(error.find(h.expected), std::string::npos) << h.what << ": " << error;
    EXPECT_NE(error.find("h.safetensors"), std::string::npos) << h.what << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << h.what << ": " << error;
  }
}

TEST(Safetensors, WhatIsPlannedIsWhatIsReadBackAndEveryTensorIsAligned) {
  const std::vector<TensorInfo> tensors{{"odd \"name\"\n", DType::U8, {3}},
                                        {"b", DType::BF16, {5, 1}},
                                        {"empty", DType::F32, {0, 7}},
                                        {"f", DType::F32, {2, 3}},
                                        {"scalar", DType::F64, {}}};
  const auto plan = plan_safetensors(tensors, Json{{"format", "pt"}});
  EXPECT_EQ(plan.head.size() % 8, 0u);
  EXPECT_EQ(plan.file_size, plan.head.size() + 3 + 10 + 0 + 24 + 8);
  Folder folder;
  files::write_text(folder / "m.safetensors",
                    plan.head + std::string(plan.file_size - plan.head.size(), 'x'));
  const auto header = read_safetensors_header(files::File::open_to_read(folder / "m.safetensors"));
  EXPECT_EQ(header.metadata["format"], "pt");
  ASSERT_EQ(header.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % size_of(tensors[i].dtype), 0u);
    const auto read = std::find_if(header.tensors.begin(), header.tensors.end(),
                                   [&](const auto& t) { return t.name == tensors[i].name; });
    ASSERT_NE(read, header.tensors.end());
    EXPECT_EQ(read->shape, tensors[i].shape);
    EXPECT_EQ(read->dtype, tensors[i].dtype);
    EXPECT_EQ(header.offsets[read - header.tensors.begin()], plan.offsets[i]);
  }
}

float from_half(std::uint16_t half) {
  float value;
  convert(DType::F16, std::as_bytes(std::span(&half, 1)), DType::F32,
          std::as_writable_bytes(std::span(&value, 1)));
  return value;
}
std::uint16_t to_bf16(float value) {
  std::uint16_t bits;
  convert(DType::F32, std::as_bytes(std::span(&value, 1)), DType::BF16,
          std::as_writable_bytes(std::span(&bits, 1)));
  return bits;
}

TEST(Convert, HalfIsExactInFp32IncludingSubnormalsAndInfinities) {
  EXPECT_EQ(from_half(0x3c00), 1.0f);
  EXPECT_EQ(from_half(0xc248), -3.140625f);
  EXPECT_EQ(from_half(0x0001), 0x1p-24f);
  EXPECT_EQ(from_half(0x83ff), -1023 * 0x1p-24f);
  EXPECT_EQ(from_half(0x7bff), 65504.0f);
  EXPECT_EQ(from_half(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(from_half(0x8000)));
  EXPECT_TRUE(std::isnan(from_half(0x7e01)));
}

TEST(Convert, Fp32RoundsToTheNearestBf16AndTiesGoToEven) {
  EXPECT_EQ(to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f), 0x3f80);             // a tie: even is below
  EXPECT_EQ(to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);         // a tie: even is above
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);  // just above the tie
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::signaling_NaN()) & 0x7fc0, 0x7fc0);
}

}  // namespace
}  // namespace coeus::checkpoint
