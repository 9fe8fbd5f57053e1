#pragma once
// What a model file needs.
#include <coeus/nn/attention.h>
#include <coeus/nn/block.h>
#include <coeus/nn/layers.h>
#include <coeus/nn/linear.h>
#include <coeus/nn/mla.h>
#include <coeus/nn/model.h>
#include <coeus/nn/moe.h>
