// SPDX-License-Identifier: BSD-3-Clause
// torch's <ATen/Dispatch_v2.h>, which cograd does not offer.
#pragma once
#error "cograd: <ATen/Dispatch_v2.h> (AT_DISPATCH_V2) is not offered; use ATen/Dispatch.h"
