//go:build live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/transport/transporttest"
)

func TestContract(t *testing.T) {
	for _, crc := range []CRC{CRCOff, CRCOn} {
		t.Run(map[CRC]string{CRCOff: "NoCRC", CRCOn: "CRC"}[crc], func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) transporttest.Env { return newEnv(t, Options{CRC: crc}, Options{CRC: crc}) })
		})
	}
}
