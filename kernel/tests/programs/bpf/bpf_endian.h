/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

#include <asm/byteorder.h>

#define bpf_htonl __cpu_to_be32
#define bpf_htons __cpu_to_be16
