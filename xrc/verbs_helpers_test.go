package xrc

const slot = 256
