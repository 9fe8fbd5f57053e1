#pragma once
#include <coeus/layout/segments.h>
