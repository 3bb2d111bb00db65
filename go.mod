module github.com/rds-go/rds

go 1.26
