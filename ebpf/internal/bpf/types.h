/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The few fields of kernel structs that the programs read. The loader finds their
 * offsets in the BTF of the running kernel (CO-RE), so the order and the size here do
 * not matter. Only what a program needs is added.
 */
#ifndef TYPES_H
#define TYPES_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#pragma clang attribute pop

#endif
