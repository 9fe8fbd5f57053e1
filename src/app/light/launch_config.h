#pragma once
#include "app/light/config_arguments.h"

namespace coeus::app {

// Checks the configuration for the world the flags ask for, then starts this machine's ranks of it:
// one process a GPU, or one without GPUs, unless the flags say otherwise.
int launch_config(const ConfigArguments& given, launch::LaunchOptions nodes,
                  const launch::Environment& environment);

}  // namespace coeus::app
