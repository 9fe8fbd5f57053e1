#pragma once
#include "app/command.h"

// The commands of `coeus` that need no libtorch, a file each.
namespace coeus::app {

int validate(const Arguments& arguments);  // validate.cpp
int explain(const Arguments& arguments);   // explain.cpp
int configs(const Arguments& arguments);   // configs.cpp
int data(const Arguments& arguments);      // data.cpp: prepare, dump
int ckpt(const Arguments& arguments);      // ckpt.cpp: ls, show, verify
int launch(const Arguments& arguments);    // launch.cpp
// train.cpp: launch --standalone, or join the world around it
int train(const Arguments& arguments);
// heavy.cpp: commands that coeus-train has; it gets their arguments as they are
int eval(const Arguments& arguments);
int generate(const Arguments& arguments);

}  // namespace coeus::app
