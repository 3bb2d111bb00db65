package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rds-go/rds/rds"
)

// Metrics of the filter in the kernel.
var (
	filterActiveDesc   = prometheus.NewDesc("rds_admission_kernel_active", "Whether a filter in the kernel turns strangers away before TCP answers them, by the daemon's list.", nil, nil)
	filterPrefixesDesc = prometheus.NewDesc("rds_admission_kernel_prefixes", "Prefixes on the list of the filter in the kernel; without any everybody may connect.", nil, nil)
	filterRefusedDesc  = prometheus.NewDesc("rds_admission_kernel_refused_total", "Attempts of strangers to connect that the filter in the kernel has refused since it was loaded.", nil, nil)
	filterPassedDesc   = prometheus.NewDesc("rds_admission_kernel_passed_total", "Attempts to connect that the filter in the kernel has let through since it was loaded.", nil, nil)
)

var filterDescs = []*prometheus.Desc{filterActiveDesc, filterPrefixesDesc, filterRefusedDesc, filterPassedDesc}

// collectFilter shows the filter in the kernel of a daemon that looks for one.
func collectFilter(out chan<- prometheus.Metric, a *rds.AdmissionInfo) {
	if a == nil || a.Kernel == nil {
		return
	}
	k := a.Kernel
	out <- prometheus.MustNewConstMetric(filterActiveDesc, prometheus.GaugeValue, float64(one(k.Active)))
	out <- prometheus.MustNewConstMetric(filterPrefixesDesc, prometheus.GaugeValue, float64(k.Prefixes))
	out <- prometheus.MustNewConstMetric(filterRefusedDesc, prometheus.CounterValue, float64(k.Refused))
	out <- prometheus.MustNewConstMetric(filterPassedDesc, prometheus.CounterValue, float64(k.Passed))
}
