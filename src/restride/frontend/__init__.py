"""The arrays that people hold: what formats and factors they name, how each kind is read and made."""
