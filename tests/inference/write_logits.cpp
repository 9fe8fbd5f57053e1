// write_logits FOLDER 1,2,3 OUT.npy: the logits [tokens, vocabulary] of these ids in fp32 on the
// CPU, for scripts/hf_parity logits --compare.
#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "core/torch.h"
#include "inference/load.h"
#include "train/registry.h"

int main(int argc, char** argv) {
  using namespace coeus;
  if (argc != 4) return 2;
  const Registry registry = builtin_registry();
  const auto loaded = inference::load_model(
      argv[1], [&](const ModelConfig& config) { return registry.build_model(config); }, at::kCPU);
  std::vector<std::int64_t> ids;
  std::istringstream words(argv[2]);
  for (std::string word; std::getline(words, word, ',');) ids.push_back(std::stoll(word));
  const auto length = static_cast<std::int64_t>(ids.size());
  at::NoGradGuard no_grad;
  const Batch batch{.tokens = at::tensor(ids, at::kLong).unsqueeze(0),
                    .positions = at::arange(length).unsqueeze(0)};
  const Tensor logits = loaded.model->forward(batch.tokens, batch)[0].to(at::kFloat).contiguous();
  std::string header = fmt::format(
      "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", length, logits.size(1));
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string file = std::string("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 255);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(static_cast<const char*>(logits.data_ptr()), logits.nbytes());
  files::write_text(argv[3], file);
  return 0;
}
