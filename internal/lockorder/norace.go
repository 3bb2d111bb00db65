//go:build invariants && amd64 && !race

package lockorder

func raceDisable() {}
func raceEnable()  {}
