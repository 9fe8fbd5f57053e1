#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <span>

#include "app/light/commands.h"
#include "base/error.h"
#include "base/files.h"
#include "data/dataset.h"
#include "job/job_config.h"

namespace coeus::app {
namespace {

struct SampleRange {
  std::int64_t begin, end;
};

struct DataArguments {
  std::string config, output;
  std::vector<std::string> overrides;
  std::optional<SampleRange> samples;
};

SampleRange parse_samples(const std::string& text) {
  SampleRange range{};
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.begin);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == ':') {
    const auto second = std::from_chars(first.ptr + 1, end, range.end);
    const bool whole = second.ec == std::errc() && second.ptr == end;
    if (whole && range.begin >= 0 && range.end > range.begin) return range;
  }
  throw UsageError("--samples " + text + ": write A:B, the samples A to B-1, with 0 <= A < B");
}

DataArguments parse(std::span<const std::string> words) {
  DataArguments parsed;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string flag = words[i], value;
    bool has_value = false;
    if (const auto equals = flag.find('='); flag.starts_with("--samples=") && equals > 0) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
      has_value = true;
    }
    if (flag == "--samples" || flag == "-o") {
      if (!has_value && i + 1 == words.size()) throw UsageError(flag + ": a value is missing");
      if (!has_value) value = words[++i];
      if (flag == "-o") {
        parsed.output = value;
      } else {
        parsed.samples = parse_samples(value);
      }
    } else if (flag.find('=') != std::string::npos) {
      parsed.overrides.push_back(flag);
    } else if (flag.starts_with("-")) {
      throw UsageError(flag + ": unknown flag; dump has --samples A:B and -o FILE.npy");
    } else if (!parsed.config.empty()) {
      throw UsageError(flag + ": after the configuration come key.sub=value");
    } else {
      parsed.config = flag;
    }
  }
  if (parsed.config.empty()) throw UsageError("data: name a file or a built-in configuration");
  return parsed;
}

data::DatasetOptions options_of(const JobConfig& config, const std::string& name) {
  data::DatasetOptions options;
  options.data = config.data;
  options.evaluation = config.evaluation;
  options.cache = config.run.cache;
  options.seed = config.run.seed;
  options.config_name = name;
  return options;
}

// NumPy's format, version 1: a magic, the length of a Python dict, the dict padded so that the data
// begins at a multiple of 64 bytes.
std::string npy_header(std::int64_t rows, std::int64_t columns) {
  std::string dict =
      fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  dict.append((64 - (10 + dict.size() + 1) % 64) % 64, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY\x01";
  header += '\0';
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

// A row: the sample's tokens and, where samples are cut from one stream, the token after them.
void write_samples(const data::Dataset& dataset, SampleRange range, Packing packing,
                   const std::string& path) {
  const std::int64_t length = dataset.sequence_length();
  const std::int64_t columns = length + (packing == Packing::concat ? 1 : 0);
  const std::string header = npy_header(range.end - range.begin, columns);
  const auto file = files::File::create(path);
  file.write(0, std::as_bytes(std::span(header)));
  std::uint64_t at = header.size();
  std::vector<std::int64_t> tokens(length), labels(length), positions(length);
  for (std::int64_t n = range.begin; n < range.end; ++n) {
    dataset.read(n, {tokens.data(), labels.data(), positions.data()});
    std::vector<std::int32_t> row(tokens.begin(), tokens.end());
    if (columns > length) row.push_back(static_cast<std::int32_t>(labels.back()));
    file.write(at, std::as_bytes(std::span(row)));
    at += row.size() * sizeof(std::int32_t);
  }
}

int prepare(const DataArguments& arguments) {
  if (arguments.samples || !arguments.output.empty()) {
    throw UsageError("data prepare: --samples and -o belong to data dump");
  }
  const LoadedJob job = load_job(arguments.config, arguments.overrides);
  const auto tokenizer = data::load_tokenizer(job.config.tokenizer.path);
  const auto options = options_of(job.config, arguments.config);
  const std::string folder = data::prepare(options, tokenizer);
  const auto dataset = data::open_dataset(options, tokenizer, data::Split::train);
  std::fputs(fmt::format("{} tokens, {} samples of {} an epoch{}{}\n", dataset->num_tokens(),
                         dataset->size(), dataset->sequence_length(), folder.empty() ? "" : ", in ",
                         folder)
                 .c_str(),
             stdout);
  return static_cast<int>(ExitCode::finished);
}

int dump(const DataArguments& arguments) {
  if (!arguments.samples) throw UsageError("data dump: --samples A:B is missing");
  if (arguments.output.empty()) throw UsageError("data dump: -o FILE.npy is missing");
  const LoadedJob job = load_job(arguments.config, arguments.overrides);
  const auto tokenizer = data::load_tokenizer(job.config.tokenizer.path);
  const auto dataset =
      data::open_dataset(options_of(job.config, arguments.config), tokenizer, data::Split::train);
  write_samples(*dataset, *arguments.samples, job.config.data.packing, arguments.output);
  return static_cast<int>(ExitCode::finished);
}

}  // namespace

int data(const Arguments& arguments) {
  const std::string action = arguments.empty() ? "" : arguments.front();
  if (action != "prepare" && action != "dump") {
    throw UsageError("data: say what to do: prepare CONFIG, or dump CONFIG --samples A:B -o X.npy");
  }
  const DataArguments parsed = parse(std::span(arguments).subspan(1));
  return action == "prepare" ? prepare(parsed) : dump(parsed);
}

}  // namespace coeus::app
