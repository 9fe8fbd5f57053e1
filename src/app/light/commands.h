#pragma once
#include "app/command.h"

// The commands of `coeus` that need no libtorch, a file each.
namespace coeus::app {

int validate(const Arguments& arguments);   // validate.cpp
int configs(const Arguments& arguments);    // configs.cpp
int data(const Arguments& arguments);       // data.cpp: prepare, dump
int ckpt(const Arguments& arguments);       // ckpt.cpp: ls, show, verify
int launch(const Arguments& arguments);     // launch.cpp
int train(const Arguments& arguments);      // train.cpp: launch --standalone, or join the world around it

}  // namespace coeus::app
