//go:build race

package xrc

const raced = true
