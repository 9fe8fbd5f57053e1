#include "core/torch.h"
