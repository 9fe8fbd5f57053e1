#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/job/support.h"

namespace coeus {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Illegal {
  const char* from;
  const char* to;  // this stands in kLegal instead of `from`; @ marks the place that is reported
  const char*
      fault;  // the one line that is reported begins so, behind the place if there is a mark
};

const Illegal kIllegal[] = {
    {"directory: runs/x", "seed: 1", "x.yaml:1:1: run.directory: is required"},
    {"directory: runs/x", "directory: @\"\"", "run.directory: must not be empty"},
    {"directory: runs/x", "directory: r, @sed: 1", "run.sed: unknown key; did you mean seed?"},
    {"directory: runs/x", "directory: r, seed: @-1", "run.seed: must be ≥ 0, is -1"},
    {"directory: runs/x", "directory: r, seed: @1.5", "run.seed: must be an integer"},
    {"directory: runs/x", "directory: r, seed: @\"1\"",
     "run.seed: must be an integer (1000, 10K, 4Ki), is the string \"1\""},
    {"directory: runs/x", "directory: r, resume: @nevr",
     "run.resume: must be auto, never or the path"},
    {"directory: runs/x", "directory: r, deterministic: @layout",
     "run.deterministic: layout is not built yet"},
    {"directory: runs/x", "directory: r, @directory: q",
     "run.directory: duplicate key, first given at line 1"},
    {"run: {directory: runs/x}\n", "run: {directory: runs/x}\n@runn: {}\n",
     "runn: unknown key; did you mean run?"},
    {"run: {directory: runs/x}\n", "run: {directory: runs/x}\n@modle: {}\n",
     "modle: unknown key; did you mean model?"},
    {"run: {directory: runs/x}\n", "run: {directory: runs/x}\n@text_key: t\n",
     "text_key: unknown key; did you mean data.text_key?"},
    {"run: {directory: runs/x}\n", "run: @runs/x\n", "run: must be a map of keys, is 'runs/x'"},
    {"model: {name: llama, preset: debug}\n", "", "x.yaml:1:1: model: is required"},
    {"name: llama, ", "", "x.yaml:2:8: model.name: is required"},
    {"name: llama", "name: @lama",
     "model.name: must be one of llama, mixtral, qwen3_moe, deepseek_v3, is 'lama'; did you mean "
     "llama?"},
    {"preset: debug", "preset: @3.1-9b",
     "model.preset: '3.1-9b' is neither a file nor one of debug"},
    {"preset: debug", "preset: @./absent/config.json",
     "model.preset: ./absent/config.json: cannot open: No such file"},
    {"preset: debug", "preset: debug, @num_layer: 2",
     "model.num_layer: unknown key; did you mean num_layers?"},
    {"preset: debug", "preset: debug, num_layers: @0", "model.num_layers: must be ≥ 1"},
    {"preset: debug", "preset: debug, num_heads: @7, num_kv_heads: 7",
     "model.num_heads: 7 does not divide dim 256"},
    {"preset: debug", "preset: debug, num_kv_heads: @3",
     "model.num_kv_heads: 3 does not divide num_heads 16"},
    {"name: llama, preset: debug", "name: mixtral, preset: debug, top_k: @9",
     "model.top_k: 9 is more than num_experts 8"},
    {"name: llama, preset: debug", "name: qwen3_moe, preset: debug, head_dim: @33",
     "model.head_dim: 33 is odd; RoPE turns pairs"},
    {"name: llama, preset: debug", "name: deepseek_v3, preset: debug, num_groups: @3",
     "model.num_groups: 3 does not divide num_experts 16"},
    {"name: llama, preset: debug", "name: mixtral, preset: debug, @ffn_dim: 3",
     "model.ffn_dim: unknown key"},
    {"preset: debug", "preset: debug, vocab_size: @256",
     "model.vocab_size: 256 is smaller than the byte tokenizer's 257"},
    {"preset: debug", "preset: debug, rope_scaling: {factor: @0.5}",
     "model.rope_scaling.factor: must be ≥ 1, is 0.5"},
    {"tokenizer: {path: byte}\n", "", "x.yaml:1:1: tokenizer.path: is required"},
    {"tokenizer: {path: byte}", "tokenizer: @byte", "tokenizer: must be a map of keys, is 'byte'"},
    {"sources: [a.txt], ", "", "x.yaml:4:1: data.sources: is required"},
    {"sources: [a.txt]", "sources: @[]", "data.sources: must not be empty"},
    {"[a.txt]", "[{path: a.txt, weight: @2}]", "data.sources.0.weight: mixtures are not built yet"},
    {"[a.txt]", "[a.txt, @{}]", "data.sources.1.path: is required"},
    {"sequence_length: 64", "sequence_length: @0", "data.sequence_length: must be ≥ 1, is 0"},
    {"sequence_length: 64", "packing: @pad",
     "data.packing: pad is not built yet, only concat, documents"},
    {"sequence_length: 64", "bos: @on",
     "data.bos: 'on', but the byte tokenizer has no begin token"},
    {"sequence_length: 64", "eos: @yes", "data.eos: must be true or false, is 'yes'"},
    {"steps: 10", "steps: @0", "training.steps: must be ≥ 1, is 0"},
    {"steps: 10, ", "", "x.yaml:5:11: training.steps: give one of steps, tokens, epochs"},
    {"steps: 10", "steps: @10, tokens: 1B",
     "training.steps: give only one of steps, tokens, epochs"},
    {"steps: 10", "epochs: @0", "training.epochs: must be > 0, is 0"},
    {"steps: 10", "steps: @9000000000000000000",
     "training.steps: steps · global_batch_size · sequence_length leaves 64 bits"},
    {"global_batch_size: 16", "global_batch_size: @15",
     "training.global_batch_size: 15 is not a multiple of dp_replicate 1 · dp_shard 1 · "
     "micro_batch_size 2"},
    {"micro_batch_size: 2", "max_grad_norm: @-1", "training.max_grad_norm: must be ≥ 0, is -1"},
    {"holdout: 0.1", "holdout: @1", "evaluation.holdout: must be ≥ 0, < 1, is 1"},
    {"holdout: 0.1", "holdout: @0.1, sources: b.txt",
     "evaluation.holdout: give either sources or holdout, not both"},
    {"lr: 1e-3", "lr: @0", "optimizer.lr: must be > 0, is 0"},
    {"lr: 1e-3", "name: @adam",
     "optimizer.name: must be one of adamw, is 'adam'; did you mean adamw?"},
    {"lr: 1e-3", "betas: [0.9, @1.0]", "optimizer.betas.1: must be ≥ 0, < 1, is 1.0"},
    {"lr: 1e-3", "betas: @[0.9]", "optimizer.betas: must be a list of 2 items"},
    {"lr: 1e-3", "groups: [{match: @\"**.nrom*\", weight_decay: 0}]",
     "optimizer.groups.0.match: '**.nrom*' matches no tensor"},
    {"lr: 1e-3", "groups: [{match: \"**\", lr_scale: 1}, {match: @\"**norm**\", lr_scale: 2}]",
     "optimizer.groups.1.match: all that '**norm**' matches belongs to earlier groups"},
    {"lr: 1e-3", "groups: [@{match: \"**\"}]",
     "optimizer.groups.0: sets neither weight_decay nor lr_scale"},
    {"optimizer: {lr: 1e-3}", "lr_schedule: {name: @poly}",
     "lr_schedule.name: must be one of wsd, linear, cosine, constant, is 'poly'"},
    {"optimizer: {lr: 1e-3}", "lr_schedule: {decay_ratio: @2}",
     "lr_schedule.decay_ratio: must be ≥ 0, ≤ 1, is 2"},
    {"optimizer: {lr: 1e-3}", "checkpoint: {initialize_optimizer: @true}",
     "checkpoint.initialize_optimizer: has no meaning without initialize_from"},
    {"optimizer: {lr: 1e-3}", "checkpoint: {async: @true}",
     "checkpoint.async: true is not built yet, only false"},
    {"optimizer: {lr: 1e-3}", "guards: {timeout: @10}",
     "guards.timeout: must be a duration (30s, 10m, 2h), is '10'"},
    {"optimizer: {lr: 1e-3}", "guards: {non_finite: @rollback}",
     "guards.non_finite: rollback is not built yet, only stop, skip"},
    {"optimizer: {lr: 1e-3}", "guards: {spike: @rollback}",
     "guards.spike: rollback is not built yet, only off"},
    {"optimizer: {lr: 1e-3}", "parallel: {dp_shard: @0}",
     "parallel.dp_shard: must be at least 1, or -1"},
    {"optimizer: {lr: 1e-3}", "parallel: {dp_shard: 3}",
     "x.yaml:5:42: training.global_batch_size: 16 is not a multiple of dp_replicate 1 · dp_shard "
     "3"},
    {"optimizer: {lr: 1e-3}", "parallel: {tp: @3, sequence_parallel: false}",
     "parallel.tp: blocks.0.attention.q_proj.weight: 16 heads and tp 3: tp must divide them"},
    {"optimizer: {lr: 1e-3}", "parallel: {cp: 3}",
     "x.yaml:4:43: data.sequence_length: 64 is not a multiple of 2 · cp 3"},
    {"optimizer: {lr: 1e-3}", "parallel: {tp: 4, cp: 32}",
     "x.yaml:4:43: data.sequence_length: 64 is not a multiple of cp 32 · tp 4"},
    {"optimizer: {lr: 1e-3}", "parallel: {pp: @20}", "parallel.pp: "},
    {"optimizer: {lr: 1e-3}", "parallel: {ep: @2}",
     "parallel.ep: 2, but model llama has no experts"},
    {"optimizer: {lr: 1e-3}", "parallel: {ep: @3, dp_shard: 2, pp: 1}",
     "parallel.ep: 3 does not divide dp_shard 2 · cp 1 · tp 1"},
    {"optimizer: {lr: 1e-3}", "parallel: {cp_style: @ulysses, cp: 32}",
     "parallel.cp_style: ulysses: 16 heads are not a multiple of tp 1 · cp 32"},
    {"optimizer: {lr: 1e-3}", "parallel: {cp_style: @rings}", "parallel.cp_style: must be one of"},
    {"optimizer: {lr: 1e-3}", "parallel: {pp: 2, pp_schedule: @zbv}", "parallel.pp_schedule: "},
    {"optimizer: {lr: 1e-3}", "parallel: {pp: 2, pp_schedule: @2f2b}", "parallel.pp_schedule: "},
    {"optimizer: {lr: 1e-3}", "parallel: {pp: 2, pp_schedule: @zero_bubble, accumulate: sharded}",
     "parallel.pp_schedule: zero_bubble delays weight gradients"},
    {"optimizer: {lr: 1e-3}", "parallel: {pp_stages_per_rank: @2}",
     "parallel.pp_stages_per_rank: 2 has no meaning with pp 1"},
    {"optimizer: {lr: 1e-3}", "parallel: {tp_overlap: @chunks}",
     "parallel.tp_overlap: chunks is not built yet, only auto, off"},
    {"optimizer: {lr: 1e-3}", "execution: {cuda_graph: @on}",
     "execution.cuda_graph: on is not built yet, only auto, off"},
    {"optimizer: {lr: 1e-3}", "execution: {kernels: {attention: @cudnn}}",
     "execution.kernels.attention: cudnn is not built yet, only auto"},
    {"optimizer: {lr: 1e-3}", "precision: {compute: @fp16}",
     "precision.compute: must be one of auto, fp32, bf16, is 'fp16'"},
    {"optimizer: {lr: 1e-3}", "precision: {reduce: @bf16}",
     "precision.reduce: bf16 is not built yet, only fp32"},
    {"optimizer: {lr: 1e-3}", "precision: {moments: @bf16}",
     "precision.moments: bf16 is not built yet, only fp32"},
    {"optimizer: {lr: 1e-3}", "precision: {fp8: @rowwise}",
     "precision.fp8: rowwise is not built yet, only off"},
    {"optimizer: {lr: 1e-3}", "metrics: {prometheus_port: @9090}",
     "metrics.prometheus_port: 9090 is not built yet, only null"},
    {"optimizer: {lr: 1e-3}", "metrics: {prometheus_port: @70000}",
     "metrics.prometheus_port: must be ≥ 1, ≤ 65535"},
    {"optimizer: {lr: 1e-3}", "comm: {backend: @nccl, ranks: threads}",
     "comm.backend: ranks: threads talk through memory"},
    {"optimizer: {lr: 1e-3}", "profile: {steps: @[5]}",
     "profile.steps: [5] is not built yet, only []"},
    {"optimizer: {lr: 1e-3}", "plugins: @[a.so]", "plugins: [a.so] is not built yet, only []"},
    {"optimizer: {lr: 1e-3}", "optimizer: @&o {lr: 1}", "anchors (&name) are not allowed"},
    {"optimizer: {lr: 1e-3}", "optimizer: {lr: 1", "x.yaml:"},
};

TEST(Illegal, TheUnchangedConfigurationIsLegal) {
  EXPECT_EQ(faults_of(kLegal), "");
}

TEST(Illegal, EachConfigurationOfTheTableIsRefusedInOneLineThatNamesPlaceAndKey) {
  for (const Illegal& entry : kIllegal) {
    std::string yaml = kLegal;
    const auto at = yaml.find(entry.from);
    ASSERT_NE(at, std::string::npos) << entry.from;
    yaml.replace(at, std::string_view(entry.from).size(), entry.to);
    std::string fault = entry.fault;
    if (const auto mark = yaml.find('@'); mark != std::string::npos) {
      yaml.erase(mark, 1);
      const std::string before = yaml.substr(0, mark);
      const auto line = std::count(before.begin(), before.end(), '\n') + 1;
      const auto column = mark - (before.rfind('\n') + 1) + 1;
      fault = "x.yaml:" + std::to_string(line) + ":" + std::to_string(column) + ": " + fault;
    }
    const std::string reported = faults_of(yaml);
    EXPECT_THAT(reported, StartsWith(fault)) << yaml;
    EXPECT_EQ(reported.find('\n'), std::string::npos) << reported;
  }
}

TEST(Illegal, AllFaultsAreReportedTogetherInTheOrderOfTheFile) {
  std::string yaml = kLegal;
  yaml += "parallel: {tp_overlap: on}\nmetrics: {evry: 5}\n";
  yaml.replace(yaml.find("steps: 10"), 9, "steps: 0 ");
  EXPECT_EQ(faults_of(yaml),
            "x.yaml:5:19: training.steps: must be ≥ 1, is 0\n"
            "x.yaml:8:24: parallel.tp_overlap: on is not built yet, only auto, off\n"
            "x.yaml:9:11: metrics.evry: unknown key; did you mean every?");
}

TEST(Illegal, FaultsOfOverridesNameTheCommandLine) {
  EXPECT_EQ(faults_of(kLegal, {"training.steps=0"}),
            "command line: training.steps: must be ≥ 1, is 0");
  EXPECT_EQ(faults_of(kLegal, {"training.step=1"}),
            "command line: training.step: unknown key; did you mean steps?");
  EXPECT_THAT(faults_of(kLegal, {"data.sources.5=x"}),
              HasSubstr("command line: data.sources.5: the list has 1 items"));
}

TEST(Illegal, ALayoutThatDoesNotFitTheWorldIsRefusedOnceTheWorldIsKnown) {
  EXPECT_EQ(faults_of(kLegal, {}, {.world_size = 8}), "");
  EXPECT_THAT(faults_of(kLegal, {}, {.world_size = 3}),
              StartsWith("x.yaml:5:42: training.global_batch_size: 16 is not a multiple of "
                         "dp_replicate 1 · dp_shard 3"));
  EXPECT_THAT(faults_of(kLegal, {"parallel.dp_replicate=2"}, {.world_size = 3}),
              HasSubstr("parallel: "));
  EXPECT_THAT(faults_of(kLegal, {"parallel.dp_shard=4"}, {.world_size = 8}),
              HasSubstr("world of 8 ranks"));
}

}  // namespace
}  // namespace coeus
