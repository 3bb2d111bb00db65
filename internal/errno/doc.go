// Package errno has errors that stand for an errno: errors.Is finds both.
package errno
