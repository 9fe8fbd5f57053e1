#include "launch/flags.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace coeus::launch {
namespace {

int parse_number(const std::string& flag, const std::string& text, int low, int high) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high)
    throw UsageError(
        fmt::format("{}: \"{}\" is not a whole number from {} to {}", flag, text, low, high));
  return value;
}

constexpr int kMaxRanks = 1'000'000;
using Apply = void (*)(LaunchFlags&, const std::string& flag, const std::string& value);

void set_num_nodes(LaunchFlags& f, const std::string& flag, const std::string& value) {
  const auto colon = value.find(':');
  const std::string low = value.substr(0, colon);
  if (colon != std::string::npos && value.substr(colon + 1) != low)
    throw UsageError(
        fmt::format("{}: a range of nodes (\"{}\") is not supported yet", flag, value));
  f.num_nodes = parse_number(flag, low, 1, kMaxRanks);
}
void set_ranks_per_node(LaunchFlags& f, const std::string& flag, const std::string& value) {
  if (value != "auto" && value != "cpu" && value != "gpu") parse_number(flag, value, 1, kMaxRanks);
  f.ranks_per_node = value;
}
void set_node_rank(LaunchFlags& f, const std::string& flag, const std::string& value) {
  f.node_rank = parse_number(flag, value, 0, kMaxRanks);
}
void set_master_address(LaunchFlags& f, const std::string& flag, const std::string& value) {
  if (value.empty()) throw UsageError(fmt::format("{}: an address is missing", flag));
  f.master_address = value;
}
void set_master_port(LaunchFlags& f, const std::string& flag, const std::string& value) {
  f.master_port = parse_number(flag, value, 0, 65535);
}
void set_endpoint(LaunchFlags& f, const std::string& flag, const std::string& value) {
  const auto colon = value.rfind(':');
  set_master_address(f, flag, value.substr(0, colon));
  if (colon != std::string::npos) set_master_port(f, flag, value.substr(colon + 1));
}
void set_backend(LaunchFlags&, const std::string& flag, const std::string& value) {
  if (value != "static")
    throw UsageError(fmt::format("{}: \"{}\" is not supported yet, only static", flag, value));
}
void set_max_restarts(LaunchFlags&, const std::string& flag, const std::string& value) {
  if (parse_number(flag, value, 0, kMaxRanks) != 0)
    throw UsageError(fmt::format("{}: \"{}\" is not supported yet, only 0", flag, value));
}
void set_run_id(LaunchFlags& f, const std::string&, const std::string& value) {
  f.run_id = value;
}
void set_log_directory(LaunchFlags& f, const std::string& flag, const std::string& value) {
  if (value.empty()) throw UsageError(fmt::format("{}: a directory is missing", flag));
  f.log_directory = value;
}
void set_filter(LaunchFlags& f, const std::string& flag, const std::string& value) {
  f.shown_local_ranks.clear();
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t end = std::min(value.find(',', at), value.size());
    f.shown_local_ranks.push_back(parse_number(flag, value.substr(at, end - at), 0, kMaxRanks));
    at = end + 1;
  }
}
bool parse_switch(const std::string& flag, const std::string& value) {
  if (value != "0" && value != "1")
    throw UsageError(fmt::format("{}: \"{}\" must be 0 or 1", flag, value));
  return value == "1";
}
void set_standalone(LaunchFlags& f, const std::string& flag, const std::string& value) {
  f.standalone = parse_switch(flag, value);
}
void set_no_python(LaunchFlags& f, const std::string& flag, const std::string& value) {
  f.no_python = parse_switch(flag, value);
}
void set_module(LaunchFlags& f, const std::string& flag, const std::string& value) {
  f.module = parse_switch(flag, value);
}

enum class Kind { value, on };
struct Flag {
  const char *name, *short_name;  // as typed
  Kind kind;
  Apply apply;  // null: torchrun has it, we do not yet
  const char *variable, *help;
};
constexpr Flag kFlags[] = {
    {"--nnodes", "", Kind::value, set_num_nodes, "PET_NNODES", "N: machines of the run"},
    {"--nproc-per-node", "", Kind::value, set_ranks_per_node, "PET_NPROC_PER_NODE",
     "N | auto | cpu | gpu: ranks on each"},
    {"--nproc", "", Kind::value, set_ranks_per_node, "", "the same"},
    {"--node-rank", "", Kind::value, set_node_rank, "PET_NODE_RANK", "N: which machine this is"},
    {"--master-addr", "", Kind::value, set_master_address, "PET_MASTER_ADDR", "HOST of node 0"},
    {"--master-port", "", Kind::value, set_master_port, "PET_MASTER_PORT", "PORT on it"},
    {"--rdzv-endpoint", "", Kind::value, set_endpoint, "PET_RDZV_ENDPOINT", "HOST:PORT, both"},
    {"--rdzv-backend", "", Kind::value, set_backend, "PET_RDZV_BACKEND", "static"},
    {"--rdzv-id", "", Kind::value, set_run_id, "PET_RDZV_ID", "NAME of the run"},
    {"--standalone", "", Kind::on, set_standalone, "PET_STANDALONE",
     "this machine only, on a free port"},
    {"--log-dir", "", Kind::value, set_log_directory, "PET_LOG_DIR",
     "DIR: DIR/attempt-K/rank-N.log"},
    {"--local-ranks-filter", "", Kind::value, set_filter, "PET_LOCAL_RANKS_FILTER",
     "N,N: ranks to show beside being logged"},
    {"--max-restarts", "", Kind::value, set_max_restarts, "PET_MAX_RESTARTS", "0"},
    {"--no-python", "", Kind::on, set_no_python, "PET_NO_PYTHON", "run PROGRAM.py as it is"},
    {"--module", "-m", Kind::on, set_module, "PET_MODULE", "PROGRAM is a Python module"},
    {"--rdzv-conf", "", Kind::value, nullptr, "PET_RDZV_CONF", ""},
    {"--monitor-interval", "", Kind::value, nullptr, "PET_MONITOR_INTERVAL", ""},
    {"--start-method", "", Kind::value, nullptr, "PET_START_METHOD", ""},
    {"--event-log-handler", "", Kind::value, nullptr, "PET_EVENT_LOG_HANDLER", ""},
    {"--role", "", Kind::value, nullptr, "PET_ROLE", ""},
    {"--run-path", "", Kind::on, nullptr, "PET_RUN_PATH", ""},
    {"--redirects", "-r", Kind::value, nullptr, "PET_REDIRECTS", ""},
    {"--tee", "-t", Kind::value, nullptr, "PET_TEE", ""},
    {"--local-addr", "", Kind::value, nullptr, "PET_LOCAL_ADDR", ""},
    {"--logs-specs", "", Kind::value, nullptr, "PET_LOGS_SPECS", ""},
    {"--numa-binding", "", Kind::value, nullptr, "PET_NUMA_BINDING", ""},
    {"--signals-to-handle", "", Kind::value, nullptr, "PET_SIGNALS_TO_HANDLE", ""},
};

const Flag* find_flag(std::string name) {
  if (name.rfind("--", 0) == 0) std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& flag : kFlags)
    if (name == flag.name || (*flag.short_name && name == flag.short_name)) return &flag;
  return nullptr;
}

[[noreturn]] void refuse(const std::string& name) {
  throw UsageError(fmt::format("{}: this flag of torchrun is not supported yet", name));
}

}  // namespace

bool take_launch_flag(const std::vector<std::string>& arguments, std::size_t& at,
                      LaunchFlags& flags) {
  const std::string& word = arguments[at];
  const auto equals = word.rfind("--", 0) == 0 ? word.find('=') : std::string::npos;
  const std::string name = word.substr(0, equals);
  const Flag* flag = find_flag(name);
  if (!flag) return false;
  if (!flag->apply) refuse(name);
  if (flag->kind == Kind::on) {
    if (equals != std::string::npos) throw UsageError(fmt::format("{} takes no value", name));
    flag->apply(flags, name, "1");
  } else if (equals != std::string::npos) {
    flag->apply(flags, name, word.substr(equals + 1));
  } else {
    if (++at >= arguments.size()) throw UsageError(fmt::format("{}: a value is missing", name));
    flag->apply(flags, name, arguments[at]);
  }
  ++at;
  return true;
}

void read_launch_variables(const Environment& environment, LaunchFlags& flags) {
  for (const auto& flag : kFlags) {
    const auto value = *flag.variable ? environment(flag.variable) : std::nullopt;
    if (!value) continue;
    if (!flag.apply) refuse(flag.variable);
    flag.apply(flags, flag.variable, *value);
  }
}

LaunchFlags parse_launch_flags(const std::vector<std::string>& arguments,
                               const Environment& environment) {
  LaunchFlags flags;
  read_launch_variables(environment, flags);
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at][0] == '-') {
    if (arguments[at] == "--") {
      ++at;
      break;
    }
    if (!take_launch_flag(arguments, at, flags))
      throw UsageError(fmt::format("{}: unknown flag (see coeus launch --help)", arguments[at]));
  }
  flags.words.assign(arguments.begin() + at, arguments.end());
  return flags;
}

std::string launch_flags_help() {
  std::string help;
  for (const auto& flag : kFlags)
    if (flag.apply) {
      const std::string name =
          fmt::format("{}{}{}", flag.short_name, *flag.short_name ? ", " : "", flag.name);
      help += fmt::format("  {:22} {}\n", name, flag.help);
    }
  return help;
}

int count_ranks(const LaunchFlags& flags, int fallback, const Environment& environment) {
  const std::string text = flags.ranks_per_node.value_or("");
  if (text.empty()) return fallback;
  if (text != "auto" && text != "cpu" && text != "gpu")
    return parse_number("--nproc-per-node", text, 1, kMaxRanks);
  const int gpus = text == "cpu" ? 0 : count_gpus(environment);
  if (text == "gpu" && gpus == 0) throw UsageError("--nproc-per-node gpu: no GPU is visible here");
  return gpus > 0 ? gpus : count_cores();
}

}  // namespace coeus::launch
