// Includes all operator headers, for implementations.
#pragma once

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/digest.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"
#include "kernels/grad_norm.h"
#include "kernels/head_norm.h"
#include "kernels/layernorm.h"
#include "kernels/newton_schulz.h"
#include "kernels/qk_norm_rotary.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/update_rules.h"
