#pragma once
// Everything a program that hosts a model of its own may use.
#include <coeus/config/fields.h>
#include <coeus/core/batch.h>
#include <coeus/core/tensor.h>
#include <coeus/layout/segments.h>
#include <coeus/nn.h>
