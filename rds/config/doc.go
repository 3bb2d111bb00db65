// Package config has the settings of RDS: of a Node, of a Service, which is what rdsd is, and
// of a Client. Their zero values work. Package rds has all of it, under names such as
// rds.Config and rds.ServiceConfig: programs import that.
//
// Validate returns one error that names all fields that are wrong. What is given to a
// constructor is copied; maps and slices in it must not be changed afterwards.
package config
