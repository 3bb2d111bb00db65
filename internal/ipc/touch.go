package ipc

// MayTouch tells whether an application may use an area up to end: while its user's share
// of memory is used up only what it has used before, or the first MiB. touched is the end of
// what it has ever used.
func (s *Segment) MayTouch(touched *int, end int) bool {
	if end <= *touched {
		return true
	}
	if end > ChunkSize && s.Short().IsSet() {
		return false
	}
	*touched = end
	return true
}

// Trim gives back the pages of all chunks of an area in which nothing is allocated. arena is
// the area's, and touched the end of what was ever used.
func (s *Segment) Trim(arena *Arena, area []byte, touched *int) {
	end := 0
	for off := 0; off < *touched; off += ChunkSize {
		if arena.Empty(off) {
			s.discardPart(area[off:][:ChunkSize])
		} else {
			end = off + ChunkSize
		}
	}
	*touched = min(*touched, end)
}
