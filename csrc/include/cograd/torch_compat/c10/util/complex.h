// SPDX-License-Identifier: BSD-3-Clause
// torch's <c10/util/complex.h>, which cograd does not offer.
#pragma once
#error "cograd: <c10/util/complex.h> (complex numbers) is not offered"
