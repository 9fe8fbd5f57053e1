#pragma once
#include "app/command.h"
#include "launch/flags.h"

namespace coeus::app {

// `CONFIG [k=v …] [--k.sub=v …]` with the launcher's flags anywhere among them.
struct ConfigArguments {
  std::string config;
  std::vector<std::string> overrides;
  launch::LaunchFlags flags = {};
};
ConfigArguments parse_config_arguments(const Arguments& words, launch::LaunchFlags flags = {});

// Whether `coeus launch` takes the word for a configuration: *.yaml, *.yml or a built-in name.
bool is_config(const std::string& word);

}  // namespace coeus::app
