package xrc

import (
	"github.com/rds-go/rds/xrc/objects"
)

var (
	initiator = objects.Ref{Kind: objects.KindInitiator, Number: 0x400001, Generation: 7}
	target    = objects.Ref{Kind: objects.KindTarget, Number: 0x800002, Generation: 8}
)
