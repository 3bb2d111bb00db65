//go:build invariants

#include "textflag.h"

// func getg() uintptr
TEXT ·getg(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET

// func callers(pcs *[12]uintptr) int
//
// BP is the frame pointer of the function that calls: this one has no frame. The goroutine is not
// preempted in assembly, so its stack stays where it is.
TEXT ·callers(SB), NOSPLIT, $0-16
	MOVQ pcs+0(FP), DI
	MOVQ BP, SI
	XORQ CX, CX
next:
	TESTQ SI, SI
	JZ   done
	CMPQ CX, $12
	JGE  done
	MOVQ 8(SI), AX
	MOVQ AX, (DI)(CX*8)
	INCQ CX
	MOVQ (SI), SI
	JMP  next
done:
	MOVQ CX, ret+8(FP)
	RET
