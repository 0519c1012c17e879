"""What follows a search: confidence in a caption, and choice by consensus."""
