#pragma once
#include "app/command.h"

// The commands of `coeus-train`, a file each. `coeus` has checked the configuration before.
namespace coeus::app {

// train.cpp: CONFIG [k=v …] [--nproc N], one rank (or N threads)
int train(const Arguments& arguments);
int eval(const Arguments& arguments);      // eval.cpp: PATH [--data F], loss over text
int generate(const Arguments& arguments);  // generate.cpp: PATH --prompt T, text from a model

}  // namespace coeus::app
