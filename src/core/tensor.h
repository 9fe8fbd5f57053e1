#pragma once
#include <coeus/core/tensor.h>
