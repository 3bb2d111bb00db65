package conn

// Add adds what another connection has counted.
func (c *Counters) Add(o Counters) {
	c.ConnReset += o.ConnReset
	c.SendQueued += o.SendQueued
	c.SendPong += o.SendPong
	c.RecvPing += o.RecvPing
	c.CongUpdateReceived += o.CongUpdateReceived
	c.CongSendError += o.CongSendError
	c.Retransmitted += o.Retransmitted
	c.DroppedFlush += o.DroppedFlush
	c.PongsDropped += o.PongsDropped
	c.LinksRefused += o.LinksRefused
	c.Generations += o.Generations
	c.Held += o.Held
	c.SendRefused += o.SendRefused
	c.SendExpired += o.SendExpired
	c.SendTooLong += o.SendTooLong
	c.SendBarred += o.SendBarred
}
