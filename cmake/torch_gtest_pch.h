// The precompiled header of tests with tensors.
#pragma once

#include "torch_pch.h"

#include "gtest_pch.h"
