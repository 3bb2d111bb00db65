//go:build live && !race

package xrc

const raced = false
