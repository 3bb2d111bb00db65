#!/bin/sh
# Compiles NAME.bpf.c of this directory to name_bpfel.o and name_bpfeb.o with the Go code that
# embeds them; go generate calls it. It needs the Debian packages clang-19, llvm-19 (strip),
# libbpf-dev (bpf_helpers.h) and linux-libc-dev (linux/bpf.h).
#
# gen.sh NAME: NAME begins with a capital letter and is what Go's names begin with.
set -eu
name=$1
file=$(echo "$name" | tr '[:upper:]' '[:lower:]')
# <asm/types.h> is where Debian keeps what depends on the architecture. The programs do not.
arch=$(ls -d /usr/include/*-linux-gnu*/asm | head -n 1)
exec go tool bpf2go -cc clang-19 -strip llvm-strip-19 -no-global-types -target bpfel,bpfeb -go-package bpf \
	-cflags "-O2 -g -mcpu=v3 -Wall -Werror -idirafter $(dirname "$arch")" "$name" "$file.bpf.c"
